"""How long a look-up in shared storage takes, through a FUSE mount with the cache times of Curvine's client.

The folder holds many other files. `cold` are prompts that nobody has asked about before; the others are asked about
again within the second that answers are remembered, as the turns of an agent are.

    {"bench":"l2_probe","tokens":8192,"present":"all","p50_ms":..,"p99_ms":..,"cold_p50_ms":..,"cold_p99_ms":..}
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import httpx
from prometheus_client import CollectorRegistry

from gateway.background import Background
from gateway.config.l2 import L2, SharedModel
from gateway.l2.keys import Chunks, Memory
from gateway.l2.parts import L2Parts
from gateway.l2.schemes import scheme_of
from routing.blocks import block_hashes
from routing.decision import Prompt, RouteRequest
from routing.fleet import Fleet, ModelCard, Replica
from routing.types import BlockHash, Namespace, ReplicaId

SIZES = (8192, 131_072)
PRESENT = {"all": 1.0, "half": 0.5, "none": 0.0}
ROOT = "/models/q"
SPACE = Namespace("m", 16)
SHARED = SharedModel(hash="sha256_cbor", kv_bytes_per_token=4)


@contextmanager
def mounted(source: Path, at: Path) -> Iterator[Path]:
    """The folder through bindfs; itself, and said so, where that is missing."""
    if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.W_OK):
        print("# no bindfs or no /dev/fuse: measured without a FUSE mount", flush=True)
        yield source
        return
    at.mkdir()
    options = "attr_timeout=1,entry_timeout=1,negative_timeout=0"
    process = subprocess.Popen(["bindfs", "-f", "-o", options, source, at])
    try:
        end = time.monotonic() + 10
        while not os.path.ismount(at):
            if time.monotonic() > end:
                raise RuntimeError("bindfs did not mount")
            time.sleep(0.01)
        yield at
    finally:
        subprocess.run(["fusermount3", "-u", "-z", at], check=False)
        process.wait(10)


def request_of(tokens: Sequence[int]) -> RouteRequest:
    """A request whose blocks are hashed, as reading it does."""
    blocks = block_hashes(tokens, SPACE.block_size, BlockHash(1))
    return RouteRequest("m", (Prompt(len(tokens), {SPACE: blocks}),))


def write(folder: Path, tokens: Sequence[int], share: float) -> None:
    """The files of a share of the prompt's chunks."""
    named = Chunks(scheme_of(SHARED, ROOT, folder), Memory(), tokens)
    for index in range(int(len(named) * share)):
        for name in named[index]:
            with (folder / name).open("wb") as file:
                file.truncate(SHARED.file_bytes)


async def milliseconds(call: Callable[[], Awaitable[object]]) -> float:
    """What a call takes."""
    start = time.perf_counter()
    await call()
    return (time.perf_counter() - start) * 1e3


def percentiles(times: Sequence[float], name: str = "") -> dict[str, float]:
    """The median and the 99th percentile."""
    ordered = sorted(times)
    return {
        f"{name}p50_ms": round(ordered[len(ordered) // 2], 3),
        f"{name}p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 3),
    }


async def measure(source: Path, mount: Path, repeats: int) -> None:
    """Print a line for each length and share."""
    random = Random(0)
    fleet = Fleet()
    fleet.join(Replica(ReplicaId("a:1"), "http://a:1", (ModelCard("m", ROOT),)))
    # A deadline so long that none is missed: what is measured is what a look-up takes.
    settings = L2.model_validate({"path": mount, "deadline": 10.0, "models": {"m": SHARED}, "read_check": False})
    async with httpx.AsyncClient() as client, Background() as background:
        parts = L2Parts(settings, fleet, CollectorRegistry(), client, background, time.monotonic)
        for size in SIZES:
            for present, share in PRESENT.items():
                cold: list[float] = []
                warm: list[float] = []
                for _ in range(repeats):
                    tokens = random.choices(range(150_000), k=size)
                    write(source, tokens, share)
                    request = request_of(tokens)
                    look_up = lambda: parts.storage.look_up(request, [tokens], None, ())  # noqa: B023, E731
                    cold.append(await milliseconds(look_up))
                    warm += [await milliseconds(look_up) for _ in range(5)]
                line = {"bench": "l2_probe", "tokens": size, "present": present}
                print(json.dumps({**line, **percentiles(warm), **percentiles(cold, "cold_")}), flush=True)
        parts.close()


def main() -> None:
    """Make the folder, mount it, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="other files in the folder (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=30, help="prompts of each kind (default %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvgate-l2-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        for number in range(args.files):
            os.close(os.open(source / f"-SEP-other@1@0@{number:016x}@bfloat16.data", os.O_CREAT | os.O_WRONLY))
        with mounted(source, Path(folder) / "mount") as mount:
            asyncio.run(measure(source, mount, args.repeats))


if __name__ == "__main__":
    main()
