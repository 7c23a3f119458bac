"""Who is there now, asked once: for commands that look and end."""

import asyncio
from collections.abc import Iterable, Sequence
from random import Random

from gateway.config import Config, ReplicaConfig
from gateway.fleet.discovery.source import Source
from gateway.fleet.discovery.sources import make_sources


async def discover(config: Config, patience: float = 10.0) -> tuple[Sequence[ReplicaConfig], Sequence[str]]:
    """The replicas that the configuration lists and its sources find, and which sources said nothing within `patience`
    seconds, with the reason."""
    sources = make_sources(config.discovery, Random())
    answers = await asyncio.gather(*(_first(source, patience) for source in sources))
    found = [replica for answer in answers for replica in answer or ()]
    silent = [
        f"{source.name}: {source.reports.trouble or 'no answer'}"
        for source, answer in zip(sources, answers, strict=True)
        if answer is None
    ]
    return [*found, *config.replicas], silent


async def _first(source: Source, patience: float) -> Sequence[ReplicaConfig] | None:
    told: asyncio.Future[Sequence[ReplicaConfig]] = asyncio.get_running_loop().create_future()

    def tell(replicas: Iterable[ReplicaConfig]) -> None:
        if not told.done():
            told.set_result(tuple(replicas))

    task = asyncio.create_task(source.run(tell))
    task.add_done_callback(lambda task: told.cancel())
    await asyncio.wait([told], timeout=patience)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is not None:
        source.reports.failed(source.name, "broken", str(task.exception()))
    return told.result() if told.done() and not told.cancelled() else None
