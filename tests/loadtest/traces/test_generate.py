import pytest

from loadtest.bounds import infinite
from loadtest.traces.generate import BLOCK_SIZE, KINDS, Mix, generate

MIX = Mix(requests=200)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_trace(kind: str) -> None:
    assert generate(kind, MIX, 1) == generate(kind, MIX, 1)
    assert generate(kind, MIX, 1) != generate(kind, MIX, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_chained_and_cover_the_prompt(kind: str) -> None:
    before: dict[int, int | None] = {}
    trace = generate(kind, MIX, 1)
    assert len(trace.requests) == MIX.requests
    for request in trace.requests:
        assert len(request.blocks) == -(-request.prompt_tokens // BLOCK_SIZE)
        parent = None
        for block in request.blocks:
            assert before.setdefault(block, parent) == parent
            parent = block


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("shared-prompt", 0.6, 0.9), ("multi-turn", 0.6, 0.95), ("rag", 0.3, 0.8), ("agent", 0.6, 0.95), ("unique", 0, 0)],
)
def test_each_kind_shares_as_its_name_says(kind: str, least: float, most: float) -> None:
    trace = generate(kind, MIX, 1)
    assert least <= infinite(trace.lookups(), BLOCK_SIZE) <= most


def test_turns_follow_the_answer_before() -> None:
    trace = generate("multi-turn", MIX, 1)
    following = [request for request in trace.requests if request.follows is not None]
    assert len(following) > MIX.requests / 2
    for request in following:
        assert request.follows is not None
        before = trace.requests[request.follows]
        assert before.arrival < request.arrival
        assert list(request.blocks[: before.prompt_tokens // BLOCK_SIZE]) == list(
            before.blocks[: before.prompt_tokens // BLOCK_SIZE]
        )
