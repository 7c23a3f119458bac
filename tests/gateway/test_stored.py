import pytest

from gateway.stored import LONGEST, StoredAnswers, stored_id
from routing.types import ReplicaId

A, B = ReplicaId("a:1"), ReplicaId("b:1")


def test_an_answer_is_where_it_was_given_last() -> None:
    stored = StoredAnswers()
    stored.store("r", A)
    stored.store("r", B)
    assert (stored.holder("r"), stored.holder("s"), stored.holder(None)) == (B, None, None)


def test_the_oldest_are_forgotten() -> None:
    stored = StoredAnswers(remembered=2)
    for id in ("1", "2", "3"):
        stored.store(id, A)
    assert [stored.holder(id) for id in ("1", "2", "3")] == [None, A, A]


def test_an_id_of_any_length_takes_no_memory() -> None:
    stored = StoredAnswers()
    for id in ("x" * LONGEST, "x" * (LONGEST + 1)):
        stored.store(id, A)
    assert [stored.holder("x" * length) for length in (LONGEST, LONGEST + 1)] == [A, None]


@pytest.mark.parametrize(
    ("path", "previous", "id"),
    [
        ("/v1/responses/r1", None, "r1"),
        ("/v1/responses/r1/cancel", None, "r1"),
        ("/v1/responses", "r2", "r2"),
        ("/v1/responses", None, None),
        ("/v1/chat/completions", "r2", None),
    ],
)
def test_the_request_says_which_answer_it_is_about(path: str, previous: str | None, id: str | None) -> None:
    assert stored_id(path, previous) == id
