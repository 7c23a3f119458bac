"""Every endpoint of a simulated replica that does not generate."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from loadtest.replica.calls import Model, bad_request, chat_tokens, check_model, read
from loadtest.replica.exposition import CONTENT_TYPE, exposition
from loadtest.replica.publisher import HIGH_WATER_MARK, Publisher
from loadtest.replica.ranks import Ranks
from loadtest.replica.request import Request
from loadtest.replica.text import Text

VERSION = "0.33.0"
"""the vLLM whose behaviour is simulated"""


class Operations:
    """Everything but generating."""

    def __init__(self, model: Model, ranks: Ranks, text: Text, publishers: Sequence[Publisher]) -> None:
        self._model = model
        self._ranks = ranks
        self._text = text
        self._publishers = publishers

    async def health(self, request: HttpRequest) -> Response:
        return Response()

    async def version(self, request: HttpRequest) -> Response:
        return JSONResponse({"version": VERSION})

    async def models(self, request: HttpRequest) -> Response:
        card = {
            "id": self._model.name,
            "object": "model",
            "created": 0,
            "owned_by": "vllm",
            "root": str(self._text.path),
            "parent": None,
            "max_model_len": self._model.max_length,
            "permission": [],
        }
        return JSONResponse({"object": "list", "data": [card]})

    async def metrics(self, request: HttpRequest) -> Response:
        return Response(exposition(self._model.name, dict(enumerate(self._ranks))), media_type=CONTENT_TYPE)

    async def load(self, request: HttpRequest) -> Response:
        return JSONResponse({"server_load": sum(engine.running + engine.waiting for engine in self._ranks)})

    async def kv_event_sources(self, request: HttpRequest) -> Response:
        sources = {
            str(rank): {
                "enable_kv_cache_events": True,
                "publisher": "zmq",
                "endpoint": publisher.endpoint,
                "replay_endpoint": publisher.replay_endpoint,
                "buffer_steps": publisher.buffer_steps,
                "hwm": HIGH_WATER_MARK,
                "max_queue_size": HIGH_WATER_MARK,
                "topic": publisher.topic,
            }
            for rank, publisher in enumerate(self._publishers)
        }
        return JSONResponse(sources)

    async def reset_prefix_cache(self, request: HttpRequest) -> Response:
        done = [engine.reset_prefix_cache() for engine in self._ranks]
        return JSONResponse({"success": all(done)})

    async def held(self, request: HttpRequest) -> Response:
        """No engine's route: what the cache of the first rank really holds, for tests. `prompts`: token ids of each."""
        cache = next(iter(self._ranks)).cache
        asked = [Request("held", prompt, [1], cache.block_size) for prompt in read(await request.body())["prompts"]]
        return JSONResponse(
            {
                "gpu_blocks": len(cache.pool.cached_hashes()),
                "cached_tokens": [len(cache.find(one)) * cache.block_size for one in asked],
            }
        )

    async def tokenize(self, request: HttpRequest) -> Response:
        fields = read(await request.body())
        check_model(fields, self._model)
        tokens = chat_tokens(fields, self._text) if "messages" in fields else self._text.encode(_prompt(fields))
        answer: dict[str, Any] = {"count": len(tokens), "max_model_len": self._model.max_length, "tokens": tokens}
        answer["token_strs"] = (
            [self._text.decode([token]) for token in tokens] if fields.get("return_token_strs") else None
        )
        return JSONResponse(answer)

    async def detokenize(self, request: HttpRequest) -> Response:
        fields = read(await request.body())
        check_model(fields, self._model)
        tokens = fields.get("tokens")
        if not isinstance(tokens, list) or not all(
            isinstance(one, int) and 0 <= one < self._text.size for one in tokens
        ):
            raise bad_request("`tokens` must be a list of token ids", "tokens")
        return JSONResponse({"prompt": self._text.decode(tokens)})


def _prompt(fields: Mapping[str, Any]) -> str:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str):
        raise bad_request("`prompt` must be a string", "prompt")
    return prompt
