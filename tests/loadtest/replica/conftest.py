"""What the tests of the simulated replica share."""

from collections.abc import AsyncIterator

import pytest_asyncio

from loadtest.replica.serve import ReplicaSettings, Served, serve
from loadtest.replica.text import Text


@pytest_asyncio.fixture
async def replica(text: Text) -> AsyncIterator[Served]:
    """A fast replica of 64 usable blocks of 16."""
    async with serve(ReplicaSettings(blocks=65, time_scale=0.01, max_model_length=512), text) as served:
        yield served
