import pytest

from loadtest.replica.timing import PROFILES, Profile

QWEN = PROFILES["qwen3-32b-h100"]
EVERY = pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)


def test_a_prefill_of_8192_tokens_takes_half_a_second() -> None:
    assert 400 <= QWEN.prefill_ms(8192, 0) <= 510


@EVERY
def test_chunks_add_up_to_the_whole(profile: Profile) -> None:
    whole = profile.chunk_ms(1000, 500)
    assert profile.chunk_ms(300, 500) + profile.chunk_ms(700, 800) == pytest.approx(whole)


@EVERY
def test_cached_tokens_save_time(profile: Profile) -> None:
    assert profile.prefill_ms(100, 900) < profile.prefill_ms(1000, 0)


@EVERY
def test_a_step_costs_no_less_than_either_part_and_no_more_than_both(profile: Profile) -> None:
    chunks = profile.chunk_ms(512, 0)
    both = profile.step_ms(chunks, 8, 8000)
    assert both >= max(profile.prefill_ms(512, 0), profile.itl_ms(8, 8000))
    assert both <= profile.prefill_ms(512, 0) + profile.itl_ms(8, 8000)


def test_a_step_of_one_kind_is_the_plain_formula() -> None:
    assert QWEN.step_ms(QWEN.chunk_ms(100, 50), 0, 0) == QWEN.prefill_ms(100, 50)
    assert QWEN.step_ms(0.0, 3, 3000) == QWEN.itl_ms(3, 3000)
