"""kv-aware on workloads that a small fleet can just hold: what is saved, who stays, how even the work is."""

from random import Random

import pytest

from loadtest.replica.timing import Profile
from loadtest.virtual.door import MODEL, Door
from loadtest.virtual.run import Run
from loadtest.virtual.site import Site
from loadtest.virtual.summary import Summary, summarize
from loadtest.virtual.threads import SHAPES, Threads
from routing.cost import PROFILES
from routing.policies import POLICIES

CPU = Profile("cpu", 12.0, 0.25, 2e-6, 15.0, 1.0, 1e-4, 9600)
"""Five times slower than the gateway thinks."""
REPLICAS, BLOCKS, BLOCK_SIZE = 3, 300, 32
SHARE = {"chat": 0.98, "tools": 0.97, "hot": 0.98, "rag": 0.98, "unique": 0.0}
"""Of what one endless cache for all would save."""


def played(name: str, in_flight: int) -> Summary:
    sites = [Site(CPU, BLOCKS, BLOCK_SIZE, model=MODEL) for _ in range(REPLICAS)]
    profile = PROFILES["qwen3-32b-h100"]
    door = Door(POLICIES["kv-aware"], profile, REPLICAS, BLOCKS, BLOCK_SIZE, Random(0))
    answered = Run(sites, [door]).play(Threads(SHAPES[name], in_flight, seed=0))
    return summarize(answered, REPLICAS, BLOCK_SIZE)


@pytest.mark.parametrize("in_flight", [1, 6])
@pytest.mark.parametrize("name", SHAPES)
def test_the_whole_fleets_memory_is_used_and_conversations_stay(name: str, in_flight: int) -> None:
    summary = played(name, in_flight)
    assert summary.hit_ratio >= SHARE[name] * summary.ideal
    assert summary.max_over_mean <= 1.25
    assert summary.moved < 0.05
