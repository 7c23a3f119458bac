"""The ring of decisions."""

from endings import candidate, decision, ended

from gateway.decisions import CANDIDATES, DecisionRing


def ring_of(size: int, *ids: str) -> DecisionRing:
    ring = DecisionRing(size)
    for id in ids:
        ring.add(ended(id=id))
    return ring


def test_the_last_decisions_are_listed_newest_first() -> None:
    ring = ring_of(3, "a", "b", "c", "d")
    assert [record.id for record in ring.recent(10)] == ["d", "c", "b"]
    assert [record.id for record in ring.recent(2)] == ["d", "c"]
    assert ring.added == 4


def test_a_decision_is_found_by_its_request_until_it_has_made_room() -> None:
    ring = ring_of(2, "a", "b", "c")
    assert ring.get("a") is None
    found = ring.get("b")
    assert found is not None
    assert (found.id, found.at, found.status) == ("b", 17.0, 200)


def test_of_requests_with_one_id_the_last_is_found_until_it_has_made_room() -> None:
    ring = ring_of(2, "same", "same")
    first, second = reversed(ring.recent(2))
    assert ring.get("same") is second
    ring.add(ended(id="other"))
    assert ring.get("same") is second
    ring.add(ended(id="another"))
    assert ring.get("same") is None
    assert first is not second


def test_nothing_of_the_request_itself_is_kept() -> None:
    ring = DecisionRing(1)
    ring.add(ended(id="a", body=b"the secret text"))
    record = ring.get("a")
    assert b"secret" not in repr(record).encode()


def test_what_somebody_saw_listed_is_found_when_it_has_made_room_with_its_best_candidates() -> None:
    ring = DecisionRing(1)
    many = [candidate(str(number), prefill=1 - number / 100) for number in range(50)]
    ring.add(ended(id="seen", chosen=decision(*many)))
    kept = ring.keep(ring.recent(1)[0])
    ring.add(ended(id="other"))
    assert ring.get("seen") is kept
    assert kept.among == 50
    assert [one.engine.replica for one in kept.decision.candidates] == [*(str(49 - rank) for rank in range(12)), "0"]
    assert ring.keep(kept) is kept


def test_what_is_kept_is_bounded_by_candidates_too() -> None:
    ring = DecisionRing(1000)
    each = CANDIDATES // 4
    for number in range(9):
        ring.add(ended(id=str(number), chosen=decision(*[candidate("one")] * each)))
    assert [record.id for record in ring.recent(10)] == ["8", "7", "6", "5"]
    assert ring.get("4") is None
    ring.add(ended(id="huge", chosen=decision(*[candidate("one")] * (CANDIDATES + 1))))
    assert [record.id for record in ring.recent(10)] == ["huge"]
