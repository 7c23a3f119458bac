import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.replica.engine import Engine
from loadtest.replica.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from loadtest.replica.request import Request
from loadtest.replica.timing import PROFILES

BLOCK_SIZE = 4
PROFILE = PROFILES["qwen3-32b-h100"]


def engine(blocks: int = 65, *, token_budget: int = 8192, max_sequences: int = 256) -> Engine:
    return Engine(PROFILE, blocks, BLOCK_SIZE, token_budget, max_sequences)


def request(tokens: int, output: int = 1, *, start: int = 0, salt: str | None = None) -> Request:
    """A prompt of `tokens` ids from `start` on, and an output of ids that occur nowhere else."""
    return Request("r", range(start, start + tokens), range(900_000, 900_000 + output), BLOCK_SIZE, salt=salt)


def step(one: Engine) -> list[KVEvent]:
    started = one.start_step()
    assert started is not None
    return one.finish_step(started).events


def drain(one: Engine) -> list[KVEvent]:
    events: list[KVEvent] = []
    while started := one.start_step():
        events += one.finish_step(started).events
    return events


def run(one: Engine, *requests: Request) -> list[KVEvent]:
    for each in requests:
        one.add(each)
    return drain(one)


@pytest.mark.parametrize(
    ("why", "held", "prompt", "cached"),
    [
        ("nothing is there", 0, 10, 0),
        ("only full blocks count", 10, 10, 8),
        ("the last token is computed, so an exact multiple loses a block", 8, 8, 4),
        ("a longer prompt finds all that is held", 8, 9, 8),
        ("a prompt within a block finds nothing", 8, 3, 0),
    ],
)
def test_cached_tokens(why: str, held: int, prompt: int, cached: int) -> None:
    one = engine()
    if held:
        run(one, request(held))
    asked = request(prompt)
    run(one, asked)
    assert asked.cached == cached, why


def test_the_block_of_an_exact_multiple_is_stored_twice() -> None:
    one = engine()
    run(one, request(8))
    (event,) = run(one, request(8))
    assert isinstance(event, BlockStored)
    assert len(event.block_hashes) == 1
    assert max(one.cache.pool.cached_hashes().values()) == 2


def test_generated_blocks_are_cached_but_for_the_one_that_the_last_token_fills() -> None:
    one = engine()
    filled = request(3, output=5)
    events = run(one, filled)
    assert len(filled.tokens) == 8
    assert [len(event.token_ids) for event in events if isinstance(event, BlockStored)] == [4]


def test_a_generated_block_is_announced_by_the_step_after_the_one_that_filled_it() -> None:
    one = engine()
    one.add(request(3, output=3))
    assert step(one) == []
    assert len(step(one)) == 1


def test_salt_keeps_equal_prompts_apart_and_is_named_in_block_0_only() -> None:
    one = engine()
    run(one, request(9))
    salted = request(9, salt="a")
    (event,) = run(one, salted)
    assert salted.cached == 0
    assert isinstance(event, BlockStored)
    assert event.extra_keys == [["a"], None]


def test_a_long_prompt_is_prefilled_in_chunks_beside_running_ones() -> None:
    one = engine(token_budget=10)
    one.add(request(4, output=9))
    one.add(request(25, start=100))
    chunks = []
    while (started := one.start_step()) and one.running == 2:
        chunks.append([part.tokens for part in started.slices])
        one.finish_step(started)
    assert chunks[:3] == [[4, 6], [1, 9], [1, 9]]


def test_equal_prompts_of_one_step_share_blocks() -> None:
    one = engine()
    first, second = request(9), request(9)
    run(one, first, second)
    assert (first.cached, second.cached) == (0, 8)


def test_a_prompt_waits_until_all_of_it_fits_and_nobody_overtakes_it() -> None:
    one = engine(blocks=11)
    one.add(request(28, output=5))
    one.add(request(16, start=100))
    one.add(request(4, start=200))
    step(one)
    assert (one.running, one.waiting) == (1, 2)
    assert one.cache.pool.usage == pytest.approx(0.7)
    drain(one)
    assert one.counters.finished["length"] == 3


def test_the_last_of_the_running_is_preempted_when_memory_runs_out() -> None:
    one = engine(blocks=9)
    first, second = request(15, output=8), request(15, output=8, start=100)
    run(one, first, second)
    assert one.counters.preemptions > 0
    assert (first.finished, second.finished) == (True, True)
    assert second.cached == 0, "cached tokens are those of the first prefill"


def test_only_so_many_run_at_once() -> None:
    one = engine(max_sequences=2)
    for index in range(3):
        one.add(request(4, output=2, start=100 * index))
    step(one)
    assert (one.running, one.waiting) == (2, 1)


@pytest.mark.parametrize("when", ["waiting", "within a step", "between steps"])
def test_an_aborted_request_gives_its_blocks_back_at_once(when: str) -> None:
    one = engine()
    asked = request(9, output=5)
    one.add(asked)
    started = None if when == "waiting" else one.start_step()
    if started and when == "between steps":
        one.finish_step(started)
    assert one.abort(asked)
    assert (one.running, one.waiting, one.cache.pool.usage) == (0, 0, 0)
    if started and when == "within a step":
        assert one.finish_step(started).sampled == []
    assert not one.abort(asked)
    assert one.counters.finished["abort"] == 1


def test_clearing_is_announced_with_the_next_step() -> None:
    one = engine()
    run(one, request(9))
    assert one.reset_prefix_cache()
    assert one.start_step() is None
    first, *_ = run(one, request(9))
    assert first == AllBlocksCleared()


def test_nothing_is_cleared_while_requests_run() -> None:
    one = engine()
    one.add(request(9, output=2))
    step(one)
    assert not one.reset_prefix_cache()


def test_a_step_takes_what_the_profile_says() -> None:
    one = engine()
    one.add(request(40, output=2))
    prefill, decode = one.start_step(), None
    assert prefill is not None
    assert prefill.seconds == pytest.approx(PROFILE.prefill_ms(40, 0) / 1000)
    one.finish_step(prefill)
    decode = one.start_step()
    assert decode is not None
    assert decode.seconds == pytest.approx(PROFILE.itl_ms(1, 41) / 1000)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(1, 12), st.integers(0, 4)), min_size=1, max_size=40
    )
)
def test_whatever_happens_events_tell_the_cache_and_all_blocks_come_back(plan: list[tuple[int, int, int, int]]) -> None:
    """plan: (family of prompts, prompt length, output length, steps until the next one arrives or one is aborted)."""
    one = engine(blocks=13, token_budget=16, max_sequences=4)
    known: dict[int, int] = {}
    alive: list[Request] = []

    def account(events: list[KVEvent]) -> None:
        for event in events:
            if isinstance(event, BlockStored):
                assert len(event.token_ids) == len(event.block_hashes) * BLOCK_SIZE
                assert event.parent_block_hash is None or event.parent_block_hash in known
                for name in event.block_hashes:
                    known[name] = known.get(name, 0) + 1
            elif isinstance(event, BlockRemoved):
                for name in event.block_hashes:
                    known[name] -= 1

    for family, tokens, output, steps in plan:
        asked = request(tokens, output, start=1000 * family)
        one.add(asked)
        alive.append(asked)
        for _ in range(steps):
            if started := one.start_step():
                account(one.finish_step(started).events)
        if steps == 0 and len(alive) > 2:
            one.abort(alive[0])
        alive = [each for each in alive if not each.finished]
    account(drain(one))
    assert {name: copies for name, copies in known.items() if copies} == one.cache.pool.cached_hashes()
    assert (one.running, one.waiting, one.cache.pool.usage) == (0, 0, 0)
