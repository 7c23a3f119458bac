"""Whether who stores, and what lies there, agrees with the settings: asked once, for `kvgate check`."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx

from gateway.config.l2 import L2
from gateway.l2.mismatch import StoredFile, differing, newest_files
from gateway.l2.servers import Servers
from gateway.l2.workers import Workers
from routing.fleet import Fleet, Replica


async def disagreements(
    settings: L2, replicas: Sequence[Replica], client: httpx.AsyncClient, patience: float
) -> list[str]:
    """What keeps the replicas from finding in shared storage what the settings say is there.

    patience: seconds for the folder to be listed.
    """
    fleet = Fleet()
    for replica in replicas:
        fleet.join(replica)
    servers = Servers(settings, fleet, client)
    await servers.compare()
    files = [] if settings.path is None else await _of_files(settings, settings.path, fleet, patience)
    return [*servers.faults, *files]


async def _of_files(settings: L2, path: Path, fleet: Fleet, patience: float) -> list[str]:
    workers = Workers(1, "l2-list")
    try:
        async with asyncio.timeout(patience):
            files = await workers.submit(partial(newest_files, path))
    except TimeoutError:
        return [f"shared storage: {path} is not listed within {patience:g} s"]
    except OSError as exc:
        return [f"shared storage: {path} can't be listed: {exc.strerror}"]
    finally:
        workers.close()
    return list(_differing(settings, fleet, files))


def _differing(settings: L2, fleet: Fleet, files: Sequence[StoredFile]) -> Iterator[str]:
    for name, model in settings.models.items():
        serving = fleet.serving(name)
        if model.writer == "vllm" or not serving:
            continue
        if fault := differing(model, serving[0].replica.base.root, files, ()):
            yield f"shared storage of {name}: {fault}"
