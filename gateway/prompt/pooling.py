"""Requests that want no answer but vectors or judgements: embeddings, pooling, classes, scores and reranks."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.prompt import fields
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.completions import encode_inputs
from gateway.prompt.messages import as_validated
from gateway.prompt.result import CannotScore, EncodedPrompts, Reason
from gateway.prompt.scored_texts import ScoredTexts, reranked_texts, scored_texts
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer
from gateway.prompt.truncation import Truncation
from routing.fleet import Task

_RESERVED = ("chat_template", "tools", "tokenize")
"""template arguments that the engine refuses where it scores"""


class PoolingReader:
    """Reads what is asked of pooling models. Raises CannotScore. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer, settings: PromptSettings, *, processor_template: str | None) -> None:
        """settings.use_sep_token: None where the model puts pairs together by code of its own."""
        self._tokenizer = tokenizer
        self._settings = settings
        # The server's template arguments are for chats alone.
        own = replace(settings, default_template_arguments={})
        self._chat = ChatRenderer(tokenizer, own, processor_template=processor_template)

    def with_tokenizer(self, tokenizer: Tokenizer) -> "PoolingReader":
        """The same with another tokenizer of the same templates."""
        other = copy.copy(self)
        other._tokenizer, other._chat = tokenizer, self._chat.with_tokenizer(tokenizer)
        return other

    def embeddings(self, body: Mapping[str, Any]) -> EncodedPrompts:
        """`/v1/embeddings`: text, ids or conversations, several of each too."""
        given = body.get("input")
        conversations = body["messages"] if "messages" in body else given if _has_messages(given) else None
        if conversations is None:
            encoded = self._inputs(body)
        elif _is_list_of(conversations, list):
            encoded = self._conversations(conversations, body)
        else:
            encoded = self._conversations([conversations], body)
        longest = self._settings.max_model_len
        if longest is not None and any(len(prompt) > longest for prompt in encoded.prompts):
            # Refused, or embedded in several parts, as the server is set.
            raise CannotScore(Reason.TRUNCATION)
        return encoded

    def pooled(self, body: Mapping[str, Any]) -> EncodedPrompts:
        """`/pooling`: text, ids or a conversation."""
        if self._settings.task is Task.TOKENS or body.get("task") in ("token_embed", "token_classify"):
            raise CannotScore(Reason.PER_TOKEN)
        return self.classes(body)

    def classes(self, body: Mapping[str, Any]) -> EncodedPrompts:
        """`/classify`: text, ids or a conversation."""
        return self._conversations([body["messages"]], body) if "messages" in body else self._inputs(body)

    def score(self, body: Mapping[str, Any]) -> EncodedPrompts:
        """`/score`: each text of a side against that of the other, or one against all."""
        return self._scored(scored_texts(body), body)

    def rerank(self, body: Mapping[str, Any]) -> EncodedPrompts:
        """`/rerank`: a query against documents."""
        return self._scored(reranked_texts(body), body)

    def _inputs(self, body: Mapping[str, Any]) -> EncodedPrompts:
        special = fields.flag(body, "add_special_tokens", True)
        inputs = encode_inputs(body.get("input"), self._tokenizer, self._truncation(body), add_special_tokens=special)
        return EncodedPrompts(inputs, fields.salt(body))

    def _conversations(self, conversations: Sequence[Any], body: Mapping[str, Any]) -> EncodedPrompts:
        ignored = ("documents", "reasoning_effort", "tool_choice")
        shared = {name: value for name, value in body.items() if name not in ignored}
        truncation, salt = self._truncation(body), fields.salt(body)
        read = [
            self._chat.encode(
                {"add_generation_prompt": False, **shared, "messages": as_validated(messages), "tools": None},
                truncation,
                salt,
            )
            for messages in conversations
        ]
        if len(read) == 1:
            return read[0]
        if any(one.images_from is not None for one in read):
            raise CannotScore(Reason.CONVERSION)
        return EncodedPrompts(tuple(one.prompts[0] for one in read), salt)

    def _scored(self, texts: ScoredTexts, body: Mapping[str, Any]) -> EncodedPrompts:
        if self._settings.task is Task.TOKENS:
            raise CannotScore(Reason.PER_TOKEN)
        if self._settings.task is None:
            raise CannotScore(Reason.PAIRS)
        if fields.whole(body, "max_tokens_per_query") or fields.whole(body, "max_tokens_per_doc"):
            raise CannotScore(Reason.TRUNCATION)
        truncation, salt = self._truncation(body), fields.salt(body)
        if self._settings.task is Task.EMBED:
            each = [truncation.encode(self._tokenizer, text, True) for text in (*texts.one, *texts.other)]
            return EncodedPrompts(tuple(each), salt)
        return EncodedPrompts(tuple(self._pair(*pair, body, truncation) for pair in texts.pairs()), salt)

    def _pair(self, one: str, other: str, body: Mapping[str, Any], truncation: Truncation) -> Sequence[int]:
        if self._settings.chat_template is not None:
            text, has_media = self._chat.render(self._judged(one, other, body), None)
            if has_media:  # a text with the mark that stands for images
                raise CannotScore(Reason.CONVERSION)
            return truncation.encode(self._tokenizer, text, True)
        if self._settings.use_sep_token is None:
            raise CannotScore(Reason.PAIRS)
        if not self._settings.use_sep_token or not other:
            return truncation.encode(self._tokenizer, one + other, True)
        frame = self._tokenizer.pair_frame
        if frame is None:
            raise CannotScore(Reason.PAIRS)
        ids = frame.around(self._tokenizer.encode(one), self._tokenizer.encode(other))
        return truncation.cut_pair(ids)

    def _judged(self, one: str, other: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A pair as the conversation that the server's template gets."""
        given = dict(fields.mapping(body, "chat_template_kwargs"))
        if any(name in given for name in _RESERVED):
            raise CannotScore(Reason.REFUSED)
        instruction = fields.text(body, "instruction")
        if instruction is not None:
            given.setdefault("instruction", instruction)
        answered = given.pop("add_generation_prompt", False)
        messages = [{"role": "query", "content": one}, {"role": "document", "content": other}]
        return {"messages": messages, "add_generation_prompt": answered, "chat_template_kwargs": given}

    def _truncation(self, body: Mapping[str, Any]) -> Truncation:
        if body.get("padding") not in (None, "do_not_pad"):
            raise CannotScore(Reason.TRUNCATION)
        return Truncation(body, max_model_len=self._settings.max_model_len, generates=False, tokenizer_cuts="right")


def _has_messages(given: object) -> bool:
    """Whether an `input` is a conversation or several."""
    if not isinstance(given, list) or not given:
        return False
    if _is_list_of(given, list):
        return all(_has_messages(one) and not _is_list_of(one, list) for one in given)
    return all(isinstance(one, Mapping) and isinstance(one.get("role"), str) for one in given)


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, kind) for one in value)
