"""Reads requests' prompts: the package's front door, one reader for each base model."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2

from gateway.prompt import anthropic, fields, responses
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.completions import encode_completion
from gateway.prompt.eligible import refuse_unscorable
from gateway.prompt.incremental import AtOnce
from gateway.prompt.messages import as_validated, with_reasoning_renamed
from gateway.prompt.model_files import processor_template, refuse_own_renderer, separates_pairs
from gateway.prompt.pooling import PoolingReader
from gateway.prompt.result import CannotScore, EncodedPrompts, Reason, Unscored
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import CACHE_BYTES, Tokenizer, TokenizerError, load_tokenizer
from gateway.prompt.truncation import Truncation


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
            self._pooling = PoolingReader(tokenizer, settings, processor_template=processor_template)
        except jinja2.TemplateError as exc:
            raise TokenizerError(f"the chat template can't be compiled: {exc}") from exc
        self._readers = self._by_endpoint()

    def _by_endpoint(self) -> Mapping[str, Callable[[Mapping[str, Any]], EncodedPrompts]]:
        pooling = self._pooling
        return {
            "/v1/chat/completions": self._read_chat,
            "/v1/completions": self._read_completion,
            "/v1/responses": self._read_responses,
            "/v1/messages": self._read_anthropic,
            "/v1/embeddings": pooling.embeddings,
            "/tokenize": self._read_tokenize,
            "/classify": pooling.classes,
            "/pooling": pooling.pooled,
            **dict.fromkeys(("/score", "/v1/score"), pooling.score),
            **dict.fromkeys(("/rerank", "/v1/rerank", "/v2/rerank"), pooling.rerank),
        }

    def read_at_once(self, endpoint: str, body: Mapping[str, Any]) -> EncodedPrompts | Unscored:
        """As `read`, but raises TooMuch where that would take more than a few milliseconds. For one thread."""
        encoder, hasty = self._hasty
        encoder.begin()
        return hasty.read(endpoint, body)

    @cached_property
    def _hasty(self) -> tuple[AtOnce, "PromptReader"]:
        encoder = AtOnce(self._tokenizer.encoder)
        hasty, tokenizer = copy.copy(self), replace(self._tokenizer, encoder=encoder)
        hasty._tokenizer = tokenizer
        hasty._chat, hasty._pooling = self._chat.with_tokenizer(tokenizer), self._pooling.with_tokenizer(tokenizer)
        hasty._readers = hasty._by_endpoint()
        return encoder, hasty

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
            refuse_unscorable(endpoint, body)
            encoded = reader(body)
        except CannotScore as exc:
            return Unscored(exc.reason)
        except RecursionError:
            return Unscored(Reason.MALFORMED)
        return encoded if all(len(prompt) for prompt in encoded.prompts) else Unscored(Reason.EMPTY)

    def _read_chat(self, body: Mapping[str, Any]) -> EncodedPrompts:
        if body.get("tools") == []:
            raise CannotScore(Reason.REFUSED)
        limit = body.get("max_completion_tokens")
        truncation = self._truncation(body, generates=bool(body.get("max_tokens") if limit is None else limit))
        messages = as_validated(with_reasoning_renamed(body.get("messages")))
        return self._chat.encode({**body, "messages": messages}, truncation, fields.salt(body))

    def _read_responses(self, body: Mapping[str, Any]) -> EncodedPrompts:
        cut = {} if body.get("truncation", "disabled") == "disabled" else {"truncate_prompt_tokens": -1}
        truncation = self._truncation(cut, generates=bool(body.get("max_output_tokens")))
        # Unlike for chats, the tokenizer adds its own special tokens to what the template gave.
        chat = responses.chat_request(body) | {"add_special_tokens": True}
        return self._chat.encode(chat, truncation, fields.salt(body))

    def _read_anthropic(self, body: Mapping[str, Any]) -> EncodedPrompts:
        chat = anthropic.chat_request(
            body, system_first=self._chat.system_first, effort_when_disabled=self._chat.effort_when_disabled
        )
        chat["messages"] = as_validated(chat["messages"])
        return self._chat.encode(chat, self._truncation({}), fields.salt(body))

    def _read_tokenize(self, body: Mapping[str, Any]) -> EncodedPrompts:
        if "messages" not in body:
            text = fields.text(body, "prompt")
            if text is None:
                raise CannotScore(Reason.MALFORMED)
            return EncodedPrompts((self._tokenizer.encode(text, fields.flag(body, "add_special_tokens", True)),))
        ignored = ("documents", "reasoning_effort", "tool_choice")
        chat = {name: value for name, value in body.items() if name not in ignored}
        return self._chat.encode(chat | {"messages": as_validated(body["messages"])}, self._truncation({}), None)

    def _read_completion(self, body: Mapping[str, Any]) -> EncodedPrompts:
        truncation = self._truncation(body, generates=bool(body.get("max_tokens", 16)))
        return EncodedPrompts(encode_completion(body, self._tokenizer, truncation), fields.salt(body))

    def _truncation(self, body: Mapping[str, Any], *, generates: bool = True) -> Truncation:
        return Truncation(body, max_model_len=self._settings.max_model_len, generates=generates)


def load(
    source: str | Path,
    settings: PromptSettings | None = None,
    *,
    revision: str | None = None,
    download: bool = False,
    trust_remote_code: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> PromptReader:
    """A reader for a model. Takes seconds for a large vocabulary.

    source: the model's folder, or its name on the hub, looked up in the local cache unless `download`.
    cache_bytes: what may be spent on remembering pieces of prompts.
    Raises NotReproducible for models that vLLM renders by code of its own, else TokenizerError.
    """
    refuse_own_renderer(source, revision)
    tokenizer = load_tokenizer(
        source, revision=revision, download=download, trust_remote_code=trust_remote_code, cache_bytes=cache_bytes
    )
    settings = settings or PromptSettings()
    if settings.use_sep_token is None:
        settings = replace(settings, use_sep_token=separates_pairs(source, revision))
    return PromptReader(tokenizer, settings, processor_template=processor_template(source, revision))
