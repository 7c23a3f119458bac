import pytest

from routing.decision import Prompt, RouteRequest
from routing.flights import Flights, unstored_start
from routing.shared import SharedPrefix
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)
SPACE = Namespace("m", 16)
START = BlockHash(15)
NONE_STORED = SharedPrefix(0, 256)


def request(tokens: int) -> RouteRequest:
    return RouteRequest("m", (Prompt(tokens, {SPACE: [BlockHash(n) for n in range(tokens // 16)]}),))


@pytest.mark.parametrize(
    ("why", "tokens", "held", "stored", "start"),
    [
        ("nothing anywhere", 1000, 0, 0, 15),
        ("two chunks stored", 1000, 0, 512, 47),
        ("an engine holds more than is stored", 1000, 40, 512, 47),
        ("an engine holds a chunk and a bit", 1000, 17, 0, 31),
        ("all chunks are stored", 1000, 0, 768, None),
        ("shorter than a chunk", 200, 0, 0, None),
    ],
)
def test_the_part_that_is_nowhere_is_named_by_its_end(
    why: str, tokens: int, held: int, stored: int, start: int | None
) -> None:
    matches = [{A: PrefixMatch(0, held)}] if held else [{}]
    assert unstored_start(request(tokens), matches, [SharedPrefix(stored, 256)]) == start, why


def test_without_shared_storage_nobody_needs_to_follow() -> None:
    assert unstored_start(request(1000), [{}], ()) is None


def test_blocks_that_do_not_divide_a_chunk_have_no_name_for_it() -> None:
    prompt = Prompt(1000, {Namespace("m", 96): [BlockHash(n) for n in range(10)]})
    assert unstored_start(RouteRequest("m", (prompt,)), [{}], [NONE_STORED]) is None


def test_the_same_start_goes_where_the_first_went_for_a_while() -> None:
    flights = Flights(1.0)
    assert flights.follow(START, 0.0) is None
    flights.begin(START, A, 0.0)
    assert flights.follow(START, 0.9) == A.replica
    assert flights.follow(BlockHash(99), 0.9) is None
    assert flights.follow(START, 1.1) is None


def test_followers_do_not_prolong_it() -> None:
    flights = Flights(1.0)
    flights.begin(START, A, 0.0)
    flights.begin(START, A, 0.9)
    assert flights.follow(START, 1.1) is None


def test_a_crowd_is_not_held_together() -> None:
    flights = Flights(1.0)
    flights.begin(START, A, 0.0)
    followed = [flights.follow(START, 0.1) for _ in range(100)]
    assert followed[0] == A.replica
    assert followed[-1] is None


def test_one_that_had_to_go_elsewhere_is_followed_there() -> None:
    flights = Flights(1.0)
    flights.begin(START, A, 0.0)
    flights.begin(START, B, 0.1)
    assert flights.follow(START, 0.2) == B.replica


def test_a_window_of_nothing_turns_it_off() -> None:
    flights = Flights(0.0)
    flights.begin(START, A, 0.0)
    assert flights.follow(START, 0.0) is None
