"""What runs beside the requests ends nothing but itself, and is begun again."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from gateway.background import Background, ended


async def test_what_fails_is_logged_counted_and_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[int] = []
    steady = asyncio.Event()
    registry = CollectorRegistry()

    async def part() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise AttributeError("a fault of ours")
        steady.set()
        await asyncio.Event().wait()

    async with Background(rest=0.0) as background:
        registry.register(background)
        task = background.keep("watch", part)
        other = background.keep("parity", asyncio.Event().wait)  # type: ignore[arg-type]
        await steady.wait()
        assert not other.done()
        for each in (task, other):
            each.cancel()
    assert begun == [0, 1, 2]
    assert registry.get_sample_value("kvgate_background_failures_total", {"part": "watch"}) == 2
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [(record.getMessage(), record.exc_info is not None) for record in errors] == [
        ("watch failed and is begun again", True)
    ] * 2


async def test_a_step_that_fails_is_not_repeated_and_ends_nothing() -> None:
    registry = CollectorRegistry()
    done: list[str] = []

    async def step(fails: bool) -> None:
        if fails:
            raise ValueError("a fault of ours")
        done.append("done")

    async with Background() as background:
        registry.register(background)
        background.once("prefetch", step(True))
        background.once("prefetch", step(False))
    assert done == ["done"]
    assert registry.get_sample_value("kvgate_background_failures_total", {"part": "prefetch"}) == 1


async def test_a_step_that_is_cancelled_before_it_begins_is_not_left_behind() -> None:
    async def step() -> None:
        raise AssertionError("it was not to begin")

    async with Background() as background:
        background.once("prefetch", step()).cancel()


async def test_a_part_that_ends_is_not_begun_again() -> None:
    begun: list[str] = []

    async def part() -> None:
        begun.append("begun")

    async with Background(rest=0.0) as background:
        await background.keep("memory", part)
    assert begun == ["begun"]


async def test_a_part_that_loses_a_cancellation_is_ended_all_the_same() -> None:
    lost: list[str] = []
    begun = asyncio.Event()

    async def part() -> None:
        while True:
            try:
                begun.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append("a library did not pass it on")

    async with Background() as background:
        task = background.keep("shared index", part)
        await begun.wait()
        await ended([task])
        assert task.cancelled()
        await ended([task])
    assert len(lost) == 1
