"""Sampled tokens -> the OpenAI API's answers and chunks, with the fields that vLLM sends."""

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadtest.replica.calls import Call, Kind
from loadtest.replica.driver import Token
from loadtest.replica.request import Request
from loadtest.replica.text import Text

FINGERPRINT = "vllm-simulated"
DONE = b"data: [DONE]\n\n"

Fields = Mapping[str, Any]


class Writer:
    """Writes the answer to one call. `requests` are the call's, in order: all choices of prompt 0, then of prompt 1."""

    def __init__(self, call: Call, requests: Sequence[Request], model: str, text: Text) -> None:
        self._call = call
        self._requests = requests
        self._text = text
        self._chat = call.kind is Kind.CHAT
        self._written = [0] * len(requests)
        self._head = {
            "id": call.id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def opening(self) -> Iterable[bytes]:
        """Chunks before the first token."""
        if self._chat:
            prompt = self._call.prompts[0] if self._call.return_token_ids else None
            for index in range(len(self._requests)):
                delta = {"role": "assistant", "content": ""}
                choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
                yield self._chunk(choice, index, prompt_token_ids=prompt, prompt_text=None)

    def token(self, token: Token) -> Iterable[bytes]:
        """The chunk of one token; none while the text of a tool call is held back."""
        self._written[token.choice] += 1
        text = self._text.piece(token.token)
        finish = token.finish_reason
        delta: dict[str, Any] = {"content": text}
        if self._call.tool is not None:
            if finish is None:
                return
            delta = {"tool_calls": [{"index": 0, **_tool_call(self._call.tool)}]}
            finish = self._finish(finish)
        choice: dict[str, Any] = {"index": token.choice}
        choice |= {"delta": delta} if self._chat else {"text": text}
        choice |= {"logprobs": None, "finish_reason": finish}
        if finish is not None or not self._chat:
            choice["stop_reason"] = None
        if not self._chat:
            choice["prompt_token_ids"] = None
        choice["token_ids"] = [token.token] if self._call.return_token_ids else None
        last = finish is not None and not self._call.include_usage
        yield self._chunk(choice, token.choice, **({"system_fingerprint": FINGERPRINT} if last else {}))

    def closing(self) -> Iterable[bytes]:
        """Chunks after the last token."""
        if self._call.include_usage:
            # A stream reports the prompt that answered first, a whole answer the last one.
            usage = self._usage(self._requests[0].cached)
            yield _event({**self._chunk_head(), "choices": [], "usage": usage, "system_fingerprint": FINGERPRINT})
        yield DONE

    def whole(self) -> Fields:
        """The answer in one piece, once every request has finished."""
        ids = self._call.return_token_ids
        answer: dict[str, Any] = {
            **self._head,
            "choices": [self._choice(index, request) for index, request in enumerate(self._requests)],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": self._usage(self._requests[-self._call.choices].cached),
            "kv_transfer_params": None,
        }
        if self._chat:
            answer |= {"prompt_logprobs": None, "prompt_token_ids": self._call.prompts[0] if ids else None}
        return answer

    def _choice(self, index: int, request: Request) -> Fields:
        sampled = request.tokens[request.prompt_length :]
        text = "".join(map(self._text.piece, sampled))
        ids = sampled if self._call.return_token_ids else None
        common = {"index": index, "logprobs": None, "stop_reason": None, "token_ids": ids}
        if not self._chat:
            prompt = request.tokens[: request.prompt_length] if self._call.return_token_ids else None
            return {**common, "text": text, "finish_reason": request.finish_reason, "prompt_token_ids": prompt}
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "reasoning": None}
        if self._call.tool is not None:
            message |= {"content": None, "tool_calls": [_tool_call(self._call.tool)]}
        return {**common, "message": message, "finish_reason": self._finish(request.finish_reason)}

    def _finish(self, reason: str) -> str:
        called = self._call.tool is not None and not self._call.tool_named and reason == "stop"
        return "tool_calls" if called else reason

    def _chunk_head(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk"} if self._chat else dict(self._head)

    def _chunk(self, choice: Fields, index: int, **more: Any) -> bytes:
        chunk = {**self._chunk_head(), "choices": [choice], **more}
        if self._call.continuous_usage:
            chunk["usage"] = _usage(self._requests[index].prompt_length, self._written[index])
        return _event(chunk)

    def _usage(self, cached: int | None) -> Fields:
        # Choices of one prompt count it once.
        prompt = sum(map(len, self._call.prompts))
        usage = _usage(prompt, sum(request.generated for request in self._requests))
        return {**usage, "prompt_tokens_details": {"cached_tokens": cached or 0}}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


def _tool_call(name: str) -> dict[str, Any]:
    call = {"name": name, "arguments": "{}"}
    return {"id": f"call_{uuid.uuid4().hex[:16]}", "type": "function", "function": call}


def _event(fields: Fields) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"
