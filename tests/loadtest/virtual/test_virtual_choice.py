"""kv-aware on workloads that a small fleet can just hold: what is saved, who stays, how even the work is."""

from collections import Counter
from random import Random

import pytest

from loadtest.replica.timing import PROFILES as SIMULATED
from loadtest.replica.timing import Profile
from loadtest.virtual.door import MODEL, Door
from loadtest.virtual.run import Run
from loadtest.virtual.site import Site
from loadtest.virtual.summary import Summary, summarize
from loadtest.virtual.threads import SHAPES, Threads
from loadtest.virtual.workload import Ask, Open
from routing.cost import PROFILES
from routing.policies import POLICIES

CPU = Profile("cpu", 12.0, 0.25, 2e-6, 15.0, 1.0, 1e-4, 9600)
"""Five times slower than the gateway thinks."""
H100 = SIMULATED["qwen3-32b-h100"]
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


@pytest.mark.parametrize(
    ("gateways", "together", "apart"),
    [(1, 1000, 0.0), (4, 1, 0.001), (1, 1, 1.0), (1, 8, 1.0), (2, 1, 1.0), (2, 64, 2.0)],
)
def test_a_thousand_users_of_one_system_prompt_spread_over_an_idle_fleet(
    together: int, apart: float, gateways: int
) -> None:
    random = Random(1)
    system = random.choices(range(1000, 90_000), k=256)
    asks = [
        Ask(at * apart, [*system, *random.choices(range(1000, 90_000), k=random.randint(10, 60))], [7] * 20, number)
        for number, at in enumerate(number // together for number in range(1000))
    ]
    profile = PROFILES["qwen3-32b-h100"]
    sites = [Site(H100, H100.l0_tokens // 16, 16, model=MODEL) for _ in range(4)]
    doors = [
        Door(POLICIES["kv-aware"], profile, 4, H100.l0_tokens // 16, 16, Random(number)) for number in range(gateways)
    ]
    answered = Run(sites, doors, event_lag=0.01).play(Open(asks))
    users = Counter(one.replica for one in answered)
    assert max(users.values()) <= 1.15 * 250
