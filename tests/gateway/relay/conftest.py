import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from scripted_peer import DEADLINE, Harness


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvloop is what runs in production; it and asyncio's own differ in how connections close."""
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    async with asyncio.timeout(4 * DEADLINE):
        yield made
    await made.stop()
