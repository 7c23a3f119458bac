"""Puts simulated replicas on the network: sockets, server, events, and the task that steps the engine."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace

import uvicorn

from loadtest.replica.app import create_app
from loadtest.replica.calls import Model
from loadtest.replica.driver import Driver
from loadtest.replica.engine import DEFAULT_BLOCK_SIZE, DEFAULT_TOKEN_BUDGET, Engine
from loadtest.replica.host_tier import HostSettings, HostTier
from loadtest.replica.l2 import FolderSettings, SharedFolder
from loadtest.replica.publisher import DEFAULT_BUFFER_STEPS, NO_FAULTS, Faults, Publisher
from loadtest.replica.ranks import Ranks
from loadtest.replica.sliding import SlidingSettings
from loadtest.replica.speech import Speaker
from loadtest.replica.text import Text
from loadtest.replica.timing import PROFILES, Profile

KEEP_ALIVE_SECONDS = 5
"""how long an idle connection is kept, as vLLM does"""
SHUTDOWN_SECONDS = 1
"""how long running answers may go on after the end was asked for"""


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """One simulated replica."""

    profile: Profile = PROFILES["qwen3-32b-h100"]
    blocks: int | None = None
    """physical blocks, the null block included; None for what the profile's GPU holds"""
    block_size: int = DEFAULT_BLOCK_SIZE
    """tokens"""
    token_budget: int = DEFAULT_TOKEN_BUDGET
    """tokens per step at most"""
    time_scale: float = 1.0
    """real seconds per simulated second"""
    model: str = "sim"
    max_model_length: int = 131_072
    """tokens; cut to what the cache holds"""
    seed: int = 0
    """of what it says"""
    host: str = "127.0.0.1"
    port: int = 0
    """0 for a free one"""
    ranks: int = 1
    """data-parallel ranks, each with a cache of its own"""
    kv_port: int = 0
    """of the first rank's event stream, the others' follow; 0 for free ones"""
    replay_port: int = 0
    buffer_steps: int = DEFAULT_BUFFER_STEPS
    """batches kept for replay"""
    topic: str = ""
    """of its event stream; empty as vLLM's is unless set"""
    faults: Faults = NO_FAULTS
    """of its event stream"""
    host_memory: HostSettings | None = None
    sliding: SlidingSettings | None = None
    """sliding-window groups, if the model is a hybrid one"""
    l2: FolderSettings | None = None
    """a folder that it shares with other replicas"""
    scale_out: bool = False
    """whether it answers the render routes"""


@dataclass(frozen=True, slots=True)
class Served:
    """A replica that answers."""

    url: str
    engines: Sequence[Engine]
    """by rank"""
    publishers: Sequence[Publisher]

    @property
    def engine(self) -> Engine:
        """The first one."""
        return self.engines[0]

    @property
    def publisher(self) -> Publisher:
        """The first one's."""
        return self.publishers[0]


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs several servers, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serve(settings: ReplicaSettings, text: Text) -> AsyncIterator[Served]:
    """One replica, answering within the context. text: may be shared by several replicas.

    Raises OSError or zmq.ZMQError if a port is taken.
    """
    numbers = range(settings.ranks)
    engines = [_engine(settings, text, rank) for rank in numbers]
    model = Model(settings.model, min(settings.max_model_length, engines[0].capacity))
    async with contextlib.AsyncExitStack() as stack:
        publishers = [await stack.enter_async_context(_publisher(settings, rank)) for rank in numbers]
        drivers = [
            Driver(engine, publisher.publish, settings.time_scale)
            for engine, publisher in zip(engines, publishers, strict=True)
        ]
        app = create_app(model, Ranks(drivers), text, Speaker(text, settings.seed), publishers, settings.scale_out)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
            config = uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
            server = _Server(config)
            stepping = [asyncio.create_task(driver.run()) for driver in drivers]
            for each in stepping:
                # An engine that died must not look like one that is slow.
                each.add_done_callback(lambda _: setattr(server, "should_exit", True))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await server.up.wait()
                host, port = listener.getsockname()[:2]
                yield Served(f"http://{host}:{port}", engines, publishers)
            finally:
                server.should_exit = True
                await serving
                for each in stepping:
                    each.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await each


def _engine(settings: ReplicaSettings, text: Text, rank: int) -> Engine:
    blocks = settings.blocks or settings.profile.l0_tokens // settings.block_size + 1
    writer = f"{settings.host}-{settings.port}-{rank}"
    return Engine(
        settings.profile,
        blocks,
        settings.block_size,
        settings.token_budget,
        storage=SharedFolder(settings.l2, str(text.path), writer) if settings.l2 else None,
        host=HostTier(settings.host_memory, settings.seed + rank) if settings.host_memory else None,
        sliding=settings.sliding,
    )


def _publisher(settings: ReplicaSettings, rank: int) -> Publisher:
    return Publisher(
        _tcp(settings.host, settings.kv_port, rank),
        _tcp(settings.host, settings.replay_port, rank),
        topic=settings.topic,
        rank=rank,
        buffer_steps=settings.buffer_steps,
        faults=replace(settings.faults, seed=settings.faults.seed + rank),
    )


def _tcp(host: str, port: int, rank: int) -> str:
    return f"tcp://{host}:{port + rank if port else '*'}"
