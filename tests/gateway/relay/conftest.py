import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
import uvloop
from scripted_peer import DEADLINE, Harness
from served import App, Front


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvloop is what runs in production; it and asyncio's own differ in how connections close."""
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    made = Harness()
    async with asyncio.timeout(4 * DEADLINE):
        yield made
    await made.stop()


@pytest.fixture
async def front() -> AsyncIterator[Callable[..., Awaitable[Front]]]:
    fronts: list[Front] = []

    async def make(app: App, **options: Any) -> Front:
        made = Front(app, **options)
        await made.start()
        fronts.append(made)
        return made

    async with asyncio.timeout(4 * DEADLINE):
        yield make
    for made in fronts:
        for writer in made.writers:
            writer.close()
        assert made.server is not None
        made.server.close()
        await made.quiet()
