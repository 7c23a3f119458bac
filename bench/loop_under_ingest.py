"""What taking in events costs the requests: how much later the event loop runs a timer while the thread ingests.

One gateway's subscriber follows an engine in another process, which publishes 100,000 block operations a second: stores
of 16 blocks, and a removal for each block over what it holds. A task of the loop sleeps for a millisecond again and
again; how much longer it took is what a request would wait, with events and without, turn about.

    {"bench":"loop_under_ingest","block_ops_per_s":100000,"p50_ms_delta":..,"p99_ms_delta":..}
"""

import asyncio
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from random import Random
from statistics import median, quantiles

import uvloop
import zmq

from bench.ingest import Engine
from gateway.interpreter import share
from gateway.kv.stream import Subscription
from gateway.kv.subscriber import Subscriber
from gateway.kv.update import Update
from routing.changes import Drop, Put
from routing.fresh import FreshRoutes
from routing.index import PrefixIndex
from routing.reuse import ReuseChance
from routing.room import Room
from routing.types import EngineId, ReplicaId

OPERATIONS = 100_000
"""block operations a second"""
BLOCKS_PER_EVENT = 16
TICKS_PER_S = 200
ROUNDS = 5
SECONDS = 1.0
"""of each half of a round"""
NAP = 0.001
ENGINE = EngineId(ReplicaId("10.0.0.1:8000"), 0)


def publish(pipe: Connection) -> None:
    """Runs in a process of its own: publishes while it is told to."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PUB)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.bind("tcp://127.0.0.1:*")
    pipe.send(socket.getsockopt_string(zmq.LAST_ENDPOINT))
    engine, seq, sent = Engine(Random(0), BLOCKS_PER_EVENT), 0, 0
    made = [engine.message() for _ in range(int(OPERATIONS * SECONDS * ROUNDS / BLOCKS_PER_EVENT / 1.8))]
    pipe.send("made")
    messages = iter(made)
    while (seconds := pipe.recv()) is not None:
        began, sent = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            while sent < OPERATIONS * elapsed:
                payload, operations = next(messages)
                socket.send_multipart([b"", seq.to_bytes(8, "big"), payload])
                seq, sent = seq + 1, sent + operations
            time.sleep(1 / TICKS_PER_S)
        pipe.send(sent)
    context.destroy(linger=0)


async def lateness(seconds: float) -> list[float]:
    """How much later than asked for each nap ended, in seconds."""
    late: list[float] = []
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        await asyncio.sleep(NAP)
        late.append(time.perf_counter() - before - NAP)
    return late


async def measure(pipe: Connection) -> tuple[list[float], list[float], float]:
    """Lateness without and with events, and the operations a second that were taken in."""
    index, room, fresh, applied = PrefixIndex(), Room(ReuseChance(), 600.0), FreshRoutes(2.0), 0
    loop = asyncio.get_running_loop()

    def take_in(update: Update) -> None:
        """As a gateway does (`fleet.membership`)."""
        nonlocal applied
        index.apply(update.engine, update.changes)
        room.apply(update.engine, update.changes, loop.time())
        fresh.apply(update.engine, update.changes)
        applied += sum(len(change.blocks) for change in update.changes if isinstance(change, Put | Drop))

    subscriber = Subscriber(loop, take_in, b"")
    subscriber.subscribe(Subscription(ENGINE, 1, await loop.run_in_executor(None, pipe.recv), None, "", "m"))
    await loop.run_in_executor(None, pipe.recv)
    idle: list[float] = []
    busy: list[float] = []
    for _ in range(ROUNDS):
        idle += await lateness(SECONDS)
        pipe.send(SECONDS)
        busy += await lateness(SECONDS)
        await loop.run_in_executor(None, pipe.recv)
    pipe.send(None)
    subscriber.close()
    return idle, busy, applied / (ROUNDS * SECONDS)


def main() -> None:
    """Print the line."""
    share()
    ours, theirs = multiprocessing.Pipe()
    publisher = multiprocessing.get_context("spawn").Process(target=publish, args=(theirs,))
    publisher.start()
    idle, busy, rate = uvloop.run(measure(ours))
    publisher.join()
    p99 = [quantiles(late, n=100)[98] for late in (idle, busy)]
    line = {
        "bench": "loop_under_ingest",
        "block_ops_per_s": round(rate),
        "p50_ms": round(median(idle) * 1e3, 3),
        "p50_ms_delta": round((median(busy) - median(idle)) * 1e3, 3),
        "p99_ms_delta": round((p99[1] - p99[0]) * 1e3, 3),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
