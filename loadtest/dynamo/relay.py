"""What Dynamo asks of a worker -> a completion of the OpenAI API -> what Dynamo expects back."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

_DATA = b"data: "
_DONE = b"[DONE]"


def completion(request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `/v1/completions` for a prompt that the frontend has tokenized."""
    stop = request.get("stop_conditions") or {}
    return {
        "prompt": request["token_ids"],
        "max_tokens": stop.get("max_tokens"),
        "ignore_eos": bool(stop.get("ignore_eos")),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }


async def outputs(lines: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """lines: of the answer's event stream. The last output has the usage, which the replica tells one event later."""
    last: dict[str, Any] = {}
    async for line in lines:
        if not line.startswith(_DATA) or line.startswith(_DATA + _DONE):
            continue
        event = json.loads(line.removeprefix(_DATA))
        for choice in event["choices"]:
            output = {"index": 0, "token_ids": choice["token_ids"] or []}
            if choice["finish_reason"]:
                last = {**output, "finish_reason": choice["finish_reason"]}
            else:
                yield output
        if not event["choices"]:
            yield {**last, "completion_usage": event["usage"]}
