"""The ring of decisions."""

from dataclasses import dataclass

import msgspec
from endings import candidate, decision, ended

from gateway.decisions import CANDIDATES, DecisionRing, Kept
from gateway.log_line import LogLines
from gateway.relay.usage import Usage
from routing.decision import Decision
from routing.types import BlockHash


@dataclass
class Filled:
    ring: DecisionRing

    def add(self, id: str, chosen: Decision | None = None, usage: Usage | None = None) -> None:
        LogLines([self.ring.add]).ended(ended(id=id, chosen=chosen, usage=usage))

    def ids(self, limit: int = 10) -> list[str]:
        return [id_of(kept) for kept in self.ring.recent(limit)]


def id_of(kept: Kept | None) -> str:
    assert kept is not None
    return kept.read()[0].id


def filled(size: int, *ids: str) -> Filled:
    made = Filled(DecisionRing(size))
    for id in ids:
        made.add(id)
    return made


def test_the_last_decisions_are_listed_newest_first() -> None:
    there = filled(3, "a", "b", "c", "d")
    assert there.ids() == ["d", "c", "b"]
    assert there.ids(2) == ["d", "c"]
    assert there.ring.added == 4


def test_a_decision_is_found_by_its_request_until_it_has_made_room() -> None:
    ring = filled(2, "a", "b", "c").ring
    assert ring.get("a") is None
    found = ring.get("b")
    assert found is not None
    line, chosen = found.read()
    assert (line.id, found.at, line.status, chosen.engine.replica) == ("b", 17.0, 200, "one")


def test_of_requests_with_one_id_the_last_is_found_until_it_has_made_room() -> None:
    there = filled(2, "same", "same")
    second, first = there.ring.recent(2)
    assert there.ring.get("same") is second
    there.add("other")
    assert there.ring.get("same") is second
    there.add("another")
    assert there.ring.get("same") is None
    assert first is not second


def test_an_id_is_not_found_where_another_text_says_it() -> None:
    there = filled(3, 'x","id":"a', "ä\\", "ab")
    assert there.ring.get("a") is None
    assert id_of(there.ring.get('x","id":"a')) == 'x","id":"a'
    assert id_of(there.ring.get("ä\\")) == "ä\\"


def test_of_a_request_nothing_is_kept_but_its_line_and_who_could_have_had_it() -> None:
    ring = DecisionRing(1)
    one = candidate("one", prompt=100)
    blocks = [BlockHash(number) for number in range(1000)]
    chosen = decision(one)._replace(credited=[blocks], unheld=[blocks])
    LogLines([ring.add]).ended(ended(id="a", body=b"the secret text", chosen=chosen))
    kept = ring.get("a")
    assert kept is not None
    assert b"secret" not in kept.line
    assert msgspec.structs.asdict(kept) == {
        "line": kept.line, "at": 17.0, "prompt_tokens": 100, "among": 1, "candidates": (one,),
    }  # fmt: skip


def test_what_somebody_saw_listed_is_found_when_it_has_made_room_with_its_best_candidates() -> None:
    there = filled(1)
    ring = there.ring
    there.add("seen", decision(*[candidate(str(number), prefill=1 - number / 100) for number in range(50)]))
    kept = ring.keep(ring.recent(1)[0])
    there.add("other")
    assert ring.get("seen") is kept
    assert kept.among == 50
    assert [one.engine.replica for one in kept.candidates] == [*(str(49 - rank) for rank in range(12)), "0"]
    assert ring.keep(kept) is kept


def test_what_is_kept_is_bounded_by_candidates_too() -> None:
    there = filled(1000)
    each = CANDIDATES // 4
    for number in range(9):
        there.add(str(number), decision(*[candidate("one")] * each))
    assert there.ids() == ["8", "7", "6", "5"]
    assert there.ring.get("4") is None
    there.add("huge", decision(*[candidate("one")] * (CANDIDATES + 1)))
    assert there.ids() == ["huge"]
