"""When an answer speaks against the index, and when the index has to be learned anew."""

import pytest

from routing.audit import Audit, Verdict
from routing.ledger import Change, Drop, Put, Wipe
from routing.types import BlockHash, EngineId, ReplicaId, Tier

A = EngineId(ReplicaId("a:1"), 0)
CHAIN = [BlockHash(number) for number in range(8)]
CONFIRMED, EVICTED, PHANTOM = Verdict.CONFIRMED, Verdict.EVICTED, Verdict.PHANTOM


def audit() -> Audit:
    made = Audit(window=10, level=0.3, least=2, grace=1.0, memory=100.0)
    made.took_in(A, [Put(Tier.GPU, CHAIN)], 0.0)
    return made


@pytest.mark.parametrize(
    ("why", "found", "change", "at", "verdict"),
    [
        ("as much as the index has", 8, None, 0.0, CONFIRMED),
        ("an engine may find more than was known", 20, None, 0.0, CONFIRMED),
        ("less, and nobody says why", 5, None, 0.0, PHANTOM),
        ("what is missing was removed while the request was under way", 5, Drop(Tier.GPU, CHAIN[5:6]), 10.5, EVICTED),
        ("it was removed, but long before", 5, Drop(Tier.GPU, CHAIN[5:6]), 9.0, PHANTOM),
        ("something else was removed", 5, Drop(Tier.GPU, CHAIN[6:]), 10.5, PHANTOM),
        ("host memory says nothing of the GPU", 5, Drop(Tier.CPU, CHAIN), 10.5, PHANTOM),
        ("everything was cleared", 5, Wipe(Tier.GPU), 10.5, EVICTED),
        ("everything was cleared in all tiers", 5, Wipe(None), 10.5, EVICTED),
    ],
)
def test_what_an_answer_says(why: str, found: int, change: Change | None, at: float, verdict: Verdict) -> None:
    audited = audit()
    audited.took_in(A, [change] if change else [], at)
    audited.sample(A, CHAIN, 8, found, since=10.0, until=11.0)
    assert audited.confirmed(A, 12.5) == [verdict], why


def test_an_answer_is_judged_when_the_stream_has_said_all_about_its_time() -> None:
    audited = audit()
    audited.sample(A, CHAIN, 8, 5, since=10.0, until=11.0)
    assert audited.confirmed(A, 12.0) == []
    audited.took_in(A, [Drop(Tier.GPU, CHAIN[5:])], 12.2)
    assert audited.confirmed(A, 12.3) == [EVICTED]
    assert audited.confirmed(A, 13.0) == []


def test_an_answer_from_before_what_is_remembered_is_not_judged() -> None:
    audited = audit()
    audited.sample(A, CHAIN, 8, 5, since=10.0, until=150.0)
    audited.took_in(A, [Drop(Tier.GPU, CHAIN[5:])], 20.0)
    audited.took_in(A, [], 151.0)
    assert audited.confirmed(A, 152.0) == []


def test_a_prompt_that_the_index_knew_nothing_of_is_no_sample() -> None:
    audited = audit()
    audited.sample(A, CHAIN, 0, 0, since=10.0, until=11.0)
    assert audited.confirmed(A, 99.0) == []


def answers(audited: Audit, *found: int, start: float) -> None:
    for number, blocks in enumerate(found):
        audited.sample(A, CHAIN, 8, blocks, since=start + number, until=start + number)
    audited.confirmed(A, start + 2 * len(found) + 2)


def test_drift_rebuilds_once() -> None:
    audited = audit()
    answers(audited, 8, 8, 8, 8, 5, start=10.0)
    assert not audited.must_rebuild(A), "one phantom"
    answers(audited, 5, start=30.0)
    assert audited.must_rebuild(A)
    assert not audited.must_rebuild(A)
    answers(audited, *[5] * 10, start=50.0)
    assert not audited.must_rebuild(A), "rebuilding did not help, nor would it again"


def test_an_index_that_was_right_for_long_may_be_rebuilt_again() -> None:
    audited = audit()
    answers(audited, 5, 5, start=10.0)
    assert audited.must_rebuild(A)
    answers(audited, *[8] * 10, start=30.0)
    assert not audited.must_rebuild(A)
    answers(audited, 5, 5, 5, start=60.0)
    assert audited.must_rebuild(A)


def test_an_engine_that_is_not_followed_here_is_not_judged() -> None:
    audited = audit()
    audited.forget(A)
    answers(audited, *[5] * 10, start=10.0)
    assert not audited.must_rebuild(A)
