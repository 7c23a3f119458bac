import gc
import tracemalloc
from random import Random

import pytest

from routing.history import BLOCK_BYTES, RouteHistory
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

A = EngineId(ReplicaId("a:1"), 0)


def chain(start: int, length: int) -> list[BlockHash]:
    return [BlockHash(number) for number in range(start, start + length)]


def test_what_was_sent_is_remembered() -> None:
    history = RouteHistory(capacity=10, limit=1_000_000, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    assert history.match(chain(0, 6)) == {A: PrefixMatch(4, 4)}


def test_over_capacity_the_tail_of_the_longest_unused_goes_first() -> None:
    history = RouteHistory(capacity=6, limit=1_000_000, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    history.record(A, chain(100, 4), now=1.0)
    assert history.match(chain(0, 4)) == {A: PrefixMatch(2, 2)}
    assert history.match(chain(100, 4)) == {A: PrefixMatch(4, 4)}


def test_what_was_not_used_for_its_lifetime_is_forgotten() -> None:
    history = RouteHistory(capacity=100, limit=1_000_000, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    history.record(A, chain(0, 2), now=50.0)
    history.record(A, chain(100, 1), now=70.0)
    assert history.match(chain(0, 4)) == {A: PrefixMatch(2, 2)}


def test_a_prompt_longer_than_the_capacity_leaves_its_head() -> None:
    history = RouteHistory(capacity=3, limit=1_000_000, lifetime=60.0)
    history.record(A, chain(0, 5), now=0.0)
    assert history.match(chain(0, 5)) == {A: PrefixMatch(3, 3)}


def test_nothing_remains_of_an_engine_that_left() -> None:
    history = RouteHistory(capacity=10, limit=1_000_000, lifetime=60.0)
    history.record(A, chain(0, 4), now=0.0)
    history.forget(A)
    history.forget(A)
    assert history.match(chain(0, 4)) == {}


def engine(number: int) -> EngineId:
    return EngineId(ReplicaId(f"r{number}:1"), 0)


def test_what_all_engines_may_take_is_shared_by_them_equally() -> None:
    history = RouteHistory(capacity=6, limit=8 * BLOCK_BYTES, lifetime=60.0)
    history.record(engine(0), chain(0, 6), now=0.0)
    assert history.match(chain(0, 6)) == {engine(0): PrefixMatch(6, 6)}
    history.record(engine(1), chain(0, 6), now=1.0)
    assert history.match(chain(0, 6)) == {engine(number): PrefixMatch(4, 4) for number in range(2)}
    history.record(engine(2), chain(100, 2), now=2.0)
    assert history.match(chain(0, 6)) == {engine(number): PrefixMatch(2, 2) for number in range(2)}
    history.forget(engine(0))
    history.record(engine(1), chain(0, 6), now=3.0)
    assert history.match(chain(0, 6)) == {engine(1): PrefixMatch(4, 4)}


@pytest.mark.parametrize("engines", [1, 9])
@pytest.mark.parametrize("blocks", [4_000, 6_000, 9_000])
def test_it_takes_no_more_bytes_than_it_may(engines: int, blocks: int) -> None:
    limit, random = blocks * BLOCK_BYTES, Random(1)
    gc.collect()
    tracemalloc.start()
    history = RouteHistory(capacity=1_000_000, limit=limit, lifetime=1e9)
    for time in range(2 * blocks // 50):
        prompt = [BlockHash(random.getrandbits(64)) for _ in range(50)]
        history.record(engine(time % engines), prompt, float(time))
    taken, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.3 * limit < taken <= most < limit
