from collections.abc import Iterable
from random import Random

import pytest

from loadtest.compare.virtual import NAMES
from loadtest.replica.timing import PROFILES
from loadtest.virtual.door import MODEL, Door
from loadtest.virtual.run import Run
from loadtest.virtual.site import Site
from loadtest.virtual.summary import summarize
from loadtest.virtual.threads import Shape, Threads
from loadtest.virtual.workload import Answered, Ask, Open
from routing import cost
from routing.policies import POLICIES

NAME = "llama-8b-h100"
SHAPE = Shape(threads=6, turns=3, groups=2, shared=200, question=60, answer=20)


def fleet(replicas: int, *, policy: str = "kv-aware", blocks: int = 300, doors: int = 1, event_lag: float = 0.0) -> Run:
    sites = [Site(PROFILES[NAME], blocks, 32, model=MODEL) for _ in range(replicas)]
    gateways = [
        Door(NAMES[policy], cost.PROFILES[NAME], replicas, blocks, 32, Random(number)) for number in range(doors)
    ]
    return Run(sites, gateways, event_lag=event_lag)


def prompt(seed: int, tokens: int = 320) -> list[int]:
    return Random(seed).choices(range(1000, 2000), k=tokens)


def test_one_replica_with_room_for_all_is_the_endless_cache() -> None:
    answered = fleet(1, blocks=5000).play(Threads(SHAPE, 1, seed=1))
    summary = summarize(answered, 1, 32)
    assert len(answered) == SHAPE.threads * SHAPE.turns
    assert summary.hit_ratio == summary.ideal > 0.5
    assert (summary.exact, summary.moved, summary.max_over_mean) == (1.0, 0.0, 1.0)


def test_time_is_the_profiles() -> None:
    (answered,) = fleet(1).play(Open([Ask(0.0, prompt(1), [7] * 11, thread=0)]))
    prefill = PROFILES[NAME].prefill_ms(320, 0) / 1e3
    assert answered.ttft == pytest.approx(prefill)
    assert answered.predicted_ttft == pytest.approx(prefill)
    assert answered.itl == pytest.approx(PROFILES[NAME].itl_ms(1, 325) / 1e3, rel=0.01)


@pytest.mark.parametrize("policy", NAMES)
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    first, second = (fleet(3, policy=policy).play(Threads(SHAPE, 4, seed=5)) for _ in range(2))
    assert first == second
    assert len(first) == SHAPE.threads * SHAPE.turns


def test_events_that_lag_are_bridged_by_the_credit_of_fresh_routes() -> None:
    asks = [Ask(0.2 * turn, prompt(1), [7], thread=0) for turn in range(3)]
    answered = fleet(2, event_lag=1.0).play(Open(asks))
    assert [one.cached for one in answered] == [0, 288, 288]
    assert [one.predicted_cached for one in answered] == [0, 288, 288]


def test_several_gateways_see_the_same_events() -> None:
    asks = [Ask(float(turn), prompt(1), [7], thread=0) for turn in range(4)]
    answered = fleet(4, doors=2).play(Open(asks))
    assert len({one.replica for one in answered}) == 1


class Dying:
    """Two questions; replica 0 dies while it works on the first, and is back before the second."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def start(self) -> Iterable[Ask]:
        self._run.at(0.005, lambda: self._run.kill(0))
        self._run.at(1.0, lambda: self._run.join(0))
        return [
            Ask(0.0, prompt(1, 3200), [7] * 5, 0),
            Ask(0.0, prompt(2, 3200), [7] * 5, 1),
            Ask(2.0, prompt(3), [7], 2),
        ]

    def follow(self, answered: Answered, now: float) -> Iterable[Ask]:
        return ()


def test_what_a_dead_replica_was_to_answer_is_asked_elsewhere() -> None:
    run = fleet(2)
    answered = run.play(Dying(run))
    assert [one.replica for one in answered[:2]] == [1, 1]
    assert sorted(one.ask.thread for one in answered) == [0, 1, 2]


def test_a_lost_message_comes_with_the_next_one() -> None:
    asks = [Ask(4.0 * turn, prompt(turn), [7], thread=turn) for turn in range(8)]
    door = Door(POLICIES["kv-aware"], cost.PROFILES[NAME], 1, 300, 32, Random(0))
    run = Run([Site(PROFILES[NAME], 300, 32, model=MODEL)], [door], event_loss=0.5, random=Random(1))
    held: list[int] = []
    for turn in range(8):
        run.at(4.0 * turn + 3.9, lambda: held.append(len(door.index)))
    run.play(Open(asks))
    complete = [10 * (turn + 1) for turn in range(8)]
    assert any(known < all_ for known, all_ in zip(held, complete, strict=True))
    assert any(known == all_ for known, all_ in zip(held[1:], complete[1:], strict=True))
