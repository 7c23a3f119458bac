"""Reads requests' prompts: the package's front door, one reader for each base model."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from gateway.prompt import fields
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.completions import encode_completion
from gateway.prompt.result import CannotScore, EncodedPrompts, Reason, Unscored
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer, TokenizerError, load_tokenizer
from gateway.prompt.truncation import Truncation

logger = logging.getLogger(__name__)


class PromptReader:
    """Turns request bodies into the token ids that the engine will see. Thread-safe.

    Exact or nothing: what can't be reproduced is `Unscored`, with the reason.
    """

    def __init__(
        self, tokenizer: Tokenizer, settings: PromptSettings, *, processor_template: str | None = None
    ) -> None:
        """Raises TokenizerError if the chat template of the settings can't be compiled."""
        self._tokenizer = tokenizer
        self._settings = settings
        try:
            self._chat = ChatRenderer(tokenizer, settings, processor_template=processor_template)
        except jinja2.TemplateError as exc:
            raise TokenizerError(f"the chat template can't be compiled: {exc}") from exc
        self._readers = {
            "/v1/chat/completions": self._read_chat,
            "/v1/completions": self._read_completion,
        }

    @property
    def encoder(self) -> str:
        """What encodes: `fastokens`, `huggingface` or `python`."""
        return self._tokenizer.encoder.name

    def read(self, endpoint: str, body: Mapping[str, Any]) -> EncodedPrompts | Unscored:
        """The prompts of one request.

        endpoint: the path, as `/v1/chat/completions`.
        body: the decoded JSON object; not changed.
        CPU-bound: milliseconds for long prompts, most of them without the interpreter lock.
        """
        reader = self._readers.get(endpoint)
        if reader is None:
            return Unscored(Reason.ENDPOINT)
        try:
            if fields.mapping(body, "kv_transfer_params").get("prompt_token_ids") is not None:
                return Unscored(Reason.FORWARDED_IDS)
            encoded = reader(body)
        except CannotScore as exc:
            return Unscored(exc.reason)
        except RecursionError:
            return Unscored(Reason.MALFORMED)
        return encoded if all(len(prompt) for prompt in encoded.prompts) else Unscored(Reason.EMPTY)

    def _read_chat(self, body: Mapping[str, Any]) -> EncodedPrompts:
        echoed = fields.whole(body, "top_logprobs") or 0 if fields.flag(body, "echo", False) else None
        _refuse_prompt_logprobs(body, echoed)
        limit = body.get("max_completion_tokens")
        truncation = self._truncation(body, generates=bool(body.get("max_tokens") if limit is None else limit))
        text, has_media = self._chat.render(body, self._chat.tools(body))
        salt = fields.salt(body)
        add_special_tokens = fields.flag(body, "add_special_tokens", False)
        if has_media:
            ids = self._tokenizer.encode(self._before_last_boundary(text), add_special_tokens)
            return EncodedPrompts((ids,), salt, images_from=len(ids))
        return EncodedPrompts((truncation.encode(self._tokenizer, text, add_special_tokens),), salt)

    def _read_completion(self, body: Mapping[str, Any]) -> EncodedPrompts:
        _refuse_prompt_logprobs(body, fields.whole(body, "logprobs") if fields.flag(body, "echo", False) else None)
        truncation = self._truncation(body, generates=bool(body.get("max_tokens", 16)))
        return EncodedPrompts(encode_completion(body, self._tokenizer, truncation), fields.salt(body))

    def _truncation(self, body: Mapping[str, Any], *, generates: bool) -> Truncation:
        return Truncation(body, max_model_len=self._settings.max_model_len, generates=generates)

    def _before_last_boundary(self, text: str) -> str:
        """Text up to the end of its last added token: what follows can't change how that is encoded."""
        tokens = (token.content for token in self._tokenizer.added_tokens)
        return text[: max((text.rfind(token) + len(token) for token in tokens if token in text), default=0)]


def _refuse_prompt_logprobs(body: Mapping[str, Any], echoed: int | None) -> None:
    """echoed: the logprobs that `echo` asks for of the prompt, if it does."""
    if body.get("prompt_logprobs") is not None or echoed is not None:
        raise CannotScore(Reason.PROMPT_LOGPROBS)


def load(
    source: str | Path,
    settings: PromptSettings | None = None,
    *,
    revision: str | None = None,
    download: bool = False,
    trust_remote_code: bool = False,
) -> PromptReader:
    """A reader for a model.

    source: the model's folder, or its name on the hub, looked up in the local cache unless `download`.
    Raises TokenizerError.
    """
    tokenizer = load_tokenizer(source, revision=revision, download=download, trust_remote_code=trust_remote_code)
    return PromptReader(tokenizer, settings or PromptSettings())
