"""How long a long prompt holds up the event loop, while it is read, hashed, matched and chosen for.

A task beside it wakes up as often as the loop lets it, as a stream that is being relayed does; the longest time between
two of its turns is what everybody else waits.

    {"bench":"stall","tokens":131072,"loop_max_ms":..}
"""

import argparse
import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from random import Random
from statistics import median
from time import monotonic, perf_counter

import httpx
import uvloop

from bench.world import World, conversation
from gateway.background import Background
from gateway.choosing import Chooser
from gateway.config import Config
from gateway.interpreter import settle
from gateway.prompt.library import Library
from gateway.prompt.remote import RemoteReader
from gateway.prompt.tokenizer import load_tokenizer
from loadtest.replica.text import TOKENIZER
from routing.history import RouteHistory

TOKENS = 131_072
PATH = "/v1/chat/completions"


async def longest_turn(stop: asyncio.Event) -> float:
    """Seconds between two turns of this task, at the most, until told to stop."""
    longest, last = 0.0, perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0.0005)
        now = perf_counter()
        longest, last = max(longest, now - last), now
    return longest


async def measure(source: str, repeats: int) -> tuple[float, float]:
    """(with a long prompt, without any): the median over the repeats of the longest turn, in seconds."""
    random = Random(0)
    world = World(random, source)
    tokenizer = load_tokenizer(source)
    executor = ThreadPoolExecutor(2)
    async with httpx.AsyncClient() as client, Background() as background:
        library = Library(Config(), executor, background)
        library.want(next(iter(world.fleet)).replica)
        while library.loading:
            await asyncio.sleep(0.01)
        history = RouteHistory(100, 1_000_000, 60.0)
        remote = RemoteReader(client, monotonic)
        chooser = Chooser(Config(), world.fleet, world.index, history, world.router, library, remote, executor, random)
        bodies = [json.dumps(conversation(random, tokenizer, TOKENS)).encode() for _ in range(repeats)]
        settle()
        busy, idle = [], []
        for body in bodies:
            stop = asyncio.Event()
            watcher = asyncio.create_task(longest_turn(stop))
            await asyncio.sleep(0.05)
            reading = await chooser.request(PATH, "m", body)
            assert reading.route.tokens > TOKENS * 0.8
            found = await chooser.look_up(reading, world.policy)
            chooser.decide(reading.route, found, world.policy, monotonic())
            await asyncio.sleep(0)
            stop.set()
            busy.append(await watcher)
            stop = asyncio.Event()
            watcher = asyncio.create_task(longest_turn(stop))
            await asyncio.sleep(0.1)
            stop.set()
            idle.append(await watcher)
    executor.shutdown()
    return median(busy), median(idle)


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default=str(TOKENIZER), help="a model's folder (default: the shipped one)")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    busy, idle = uvloop.run(measure(args.tokenizer, args.repeats))
    line = {"bench": "stall", "tokens": TOKENS, "loop_max_ms": round(busy * 1e3, 3), "idle_ms": round(idle * 1e3, 3)}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
