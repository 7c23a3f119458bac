"""Replicas are compared when they join and again and again; what differs is read by them until it agrees."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from gateway_here import until

from gateway.background import Background
from gateway.config import Config
from gateway.fleet.canary import Canary
from gateway.metrics import Metrics
from gateway.prompt.library import Library
from gateway.prompt.parity import SHAPES, ParityCheck
from gateway.prompt.result import EncodedPrompts
from loadtest.replica.text import TOKENIZER
from routing.fleet import Fleet, ModelCard, Replica
from routing.types import ReplicaId

INTERVAL = 300.0
CARDS = (ModelCard("m", str(TOKENIZER)), ModelCard("sql", "/sql", parent="m"))
REPLICA = Replica(ReplicaId("replica:8000"), "http://replica:8000", CARDS)


@dataclass
class World:
    """A canary that looks after one replica. wrong: the models of which the replica gives other tokens."""

    library: Library
    metrics: Metrics
    asked: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)
    now: float = 0.0

    def tokenize(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.asked.append(body["model"])
        reader = self.library.untested_reader(REPLICA)
        assert reader is not None
        read = reader.read("/tokenize", body)
        assert isinstance(read, EncodedPrompts)
        tokens = list(read.prompts[0])
        return httpx.Response(200, json={"tokens": [0, *tokens] if body["model"] in self.wrong else tokens})

    def parity(self, shape: str) -> str:
        """The outcome that the metrics tell of a shape."""
        (outcome,) = (
            sample.labels["outcome"]
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if family.name == "kvgate_parity" and sample.labels["shape"] == shape and sample.value == 1
        )
        return outcome


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    fleet, executor = Fleet(), ThreadPoolExecutor(1)
    fleet.join(REPLICA)
    async with Background() as background:
        library = Library(Config(), executor, background)
        library.want(REPLICA)
        await until(lambda: not library.loading, "the reader is loaded")
        at = World(library, Metrics())
        async with httpx.AsyncClient(transport=httpx.MockTransport(at.tokenize)) as client:
            canary = Canary(fleet, library, ParityCheck(client), INTERVAL, at.metrics, lambda: at.now)
            running = asyncio.create_task(canary.run())
            yield at
            running.cancel()
    executor.shutdown()


async def compared(at: World, times: int) -> None:
    await until(lambda: len(at.asked) == times * 2 * len(SHAPES), "base model and adapter were compared")


@pytest.mark.parametrize("wrong", ["m", "sql"])
async def test_what_differs_is_read_by_the_replicas_until_it_agrees_again(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as at:
        await compared(at, 1)
        await until(lambda: at.library.reader(REPLICA), "the reader is trusted")
        at.wrong.add(wrong)
        at.now = INTERVAL
        await compared(at, 2)
        await until(lambda: "m" in at.library.distrusted, "the difference is seen")
        shape = "salt" if wrong == "m" else "adapter_salt"
        assert at.library.reader(REPLICA) is None
        assert (at.parity(shape), at.parity("plain" if wrong == "sql" else "adapter_plain")) == ("different", "equal")
        assert f"replica replica:8000: {'' if wrong == 'm' else 'adapter_'}text: token 0 is " in caplog.text
        assert "Kraków" not in caplog.text
        at.wrong.clear()
        at.now = 2 * INTERVAL
        await compared(at, 3)
        await until(lambda: at.library.reader(REPLICA), "the reader is trusted again")
        assert at.parity(shape) == "equal"
