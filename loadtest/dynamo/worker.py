"""One worker of Dynamo in front of one replica: `python -m loadtest.dynamo.worker URL EVENTS FOLDER`.

For the Python of an environment with `ai-dynamo`. URL, EVENTS: of the replica and its KV events. FOLDER: the model's.
Says so once it is registered.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp  # type: ignore[import-not-found]
from dynamo.llm import (  # type: ignore[import-not-found]
    KvEventPublisher,
    ModelInput,
    ModelRuntimeConfig,
    ModelType,
    WorkerType,
    register_model,
)
from dynamo.runtime import DistributedRuntime  # type: ignore[import-not-found]

from loadtest.dynamo.relay import completion, outputs


async def work(url: str, events: str, folder: str) -> None:
    """Serve until cancelled."""
    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    endpoint = runtime.endpoint("kvgate.replicas.generate")
    # Replicas close connections that were idle for 5 s; requests may be any number.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
    async with aiohttp.ClientSession(url, connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def generate(request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
            async with session.post("/v1/completions", json=completion(request), raise_for_status=True) as answer:
                async for output in outputs(answer.content):
                    yield output

        (model,) = (await (await session.get("/v1/models", raise_for_status=True)).json())["data"]
        cache = await _cache(session)
        config = ModelRuntimeConfig()
        config.context_length = model["max_model_len"]
        config.total_kv_blocks = cache["num_gpu_blocks"]
        config.enable_local_indexer = True
        size = cache["block_size"]
        # It follows the events for as long as it lives.
        publisher = KvEventPublisher(
            endpoint, kv_block_size=size, enable_local_indexer=True, zmq_endpoint=events, zmq_topic=""
        )
        await register_model(
            ModelInput.Tokens,
            ModelType.Chat | ModelType.Completions,
            endpoint,
            folder,
            model["id"],
            kv_cache_block_size=size,
            runtime_config=config,
            worker_type=WorkerType.Aggregated,
        )
        print("registered", flush=True)
        await endpoint.serve_endpoint(generate, graceful_shutdown=False)
        del publisher


async def _cache(session: aiohttp.ClientSession) -> dict[str, int]:
    """What the replica's metrics say of its cache."""
    metrics = await (await session.get("/metrics", raise_for_status=True)).text()
    (line,) = [line for line in metrics.splitlines() if line.startswith("vllm:cache_config_info{")]
    labels = dict(label.split("=", 1) for label in line.partition("{")[2].rpartition("}")[0].split(","))
    return {name: int(labels[name].strip('"')) for name in ("block_size", "num_gpu_blocks")}


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
