"""The render routes: what a request's prompt is in token ids, without generating."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from loadtest.replica.calls import Call, Kind, Model, Refusal, read, understand
from loadtest.replica.text import Text

_DISABLED = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."


class Render:
    """`POST /v1/chat/completions/render` or `/v1/completions/render`, as vLLM answers them."""

    def __init__(self, kind: Kind, model: Model, text: Text, enabled: bool) -> None:
        """enabled: False for an engine that was started without `--enable-scale-out`."""
        self._kind = kind
        self._model = model
        self._text = text
        self._enabled = enabled

    async def answer(self, request: HttpRequest) -> Response:
        if not self._enabled:
            raise Refusal(403, "PermissionDeniedError", _DISABLED)
        fields = read(await request.body())
        call = understand(self._kind, fields, request.headers, self._model, self._text)
        if self._kind is Kind.CHAT:
            return _json(_to_generate(call, call.id, call.prompts[0], fields))
        prompts = enumerate(call.prompts)
        return _json([_to_generate(call, f"{call.id}-{index}", prompt, fields) for index, prompt in prompts])


def _json(answer: object) -> Response:
    # Starlette's own takes as long for the ids as it takes to find them.
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _to_generate(call: Call, id: str, prompt: Sequence[int], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A request for vLLM's `/inference/v1/generate`; of what is sampled it tells no more than the length."""
    return {
        "request_id": id,
        "token_ids": prompt,
        "token_offsets": None,
        "features": None,
        "content_parts": None,
        "sampling_params": {"max_tokens": call.limit},
        "model": fields.get("model"),
        "reasoning_ended": None,
        "reasoning_parser_kwargs": None,
        "return_token_ids": None,
        "output_mode": "tokens",
        "stream": call.stream,
        "stream_options": fields.get("stream_options") if call.stream else None,
        "cache_salt": call.salt,
        "priority": fields.get("priority", 0),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }
