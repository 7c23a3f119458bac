from collections import Counter

import pytest

from gateway.redis.shares import shares
from routing.types import EngineId, ReplicaId

ENGINES = [EngineId(ReplicaId(f"10.0.0.{number}:8000"), rank) for number in range(10) for rank in range(2)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 30])
def test_nobody_has_more_than_one_engine_more_than_another(count: int) -> None:
    gateways = [f"g{number}" for number in range(count)]
    counts = Counter(dict.fromkeys(gateways, 0))
    counts.update(shares(ENGINES, gateways).values())
    assert sum(counts.values()) == len(ENGINES)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_the_order_in_which_they_are_named_does_not_matter() -> None:
    assert shares(ENGINES, ["a", "b", "c"]) == shares(ENGINES[::-1], ["c", "a", "b"])


def test_most_engines_stay_where_they_are_when_a_gateway_joins() -> None:
    before, after = shares(ENGINES, ["a", "b", "c"]), shares(ENGINES, ["a", "b", "c", "d"])
    assert sum(before[engine] != after[engine] for engine in ENGINES) <= len(ENGINES) // 2


def test_without_gateways_nobody_has_anything() -> None:
    assert shares(ENGINES, []) == {}
