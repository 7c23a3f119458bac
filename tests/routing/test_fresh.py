from math import inf
from random import Random

import pytest

from routing.fresh import FreshRoutes
from routing.types import BlockHash, EngineId, ReplicaId

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)
CHAIN = [BlockHash(number) for number in range(6)]


def test_a_credit_extends_what_the_engine_holds() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[2:5])
    assert fresh.extend(A, CHAIN, 2, now=10.5) == 5
    assert fresh.extend(B, CHAIN, 2, now=10.5) == 2


def test_a_credit_that_does_not_join_on_counts_for_nothing() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[2:5])
    assert fresh.extend(A, CHAIN, 1, now=10.5) == 1


def test_a_credit_lasts_as_long_as_its_prompt_waits_and_a_little_more() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    assert fresh.extend(A, CHAIN, 0, now=60.0) == 6
    fresh.began(A, CHAIN, now=60.0)
    assert fresh.extend(A, CHAIN, 0, now=61.9) == 6
    assert fresh.extend(A, CHAIN, 0, now=62.0) == 0


def test_another_prompt_that_begins_later_lasts_from_its_own_time() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    fresh.began(A, CHAIN, now=10.0)
    fresh.credit(A, CHAIN[:3])
    fresh.began(A, CHAIN[:3], now=11.5)
    fresh.credit(B, CHAIN[:1])
    fresh.began(B, CHAIN[:1], now=12.5)
    assert fresh.extend(A, CHAIN, 0, now=13.0) == 3


def test_what_waits_is_computed_again_whatever_is_evicted_meanwhile() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    fresh.settle(A, CHAIN[2:4])
    assert fresh.extend(A, CHAIN, 0, now=0.1) == 6


def test_what_events_have_spoken_of_since_is_no_longer_credited() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    fresh.began(A, CHAIN, now=10.0)
    fresh.settle(A, CHAIN[2:4])
    fresh.settle(B, CHAIN)
    assert fresh.extend(A, CHAIN, 0, now=10.1) == 2
    fresh.credit(A, CHAIN[2:4])
    assert fresh.extend(A, CHAIN, 2, now=12.0) == 4


def test_a_prompt_without_an_answer_is_no_longer_credited() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    fresh.withdraw(A, CHAIN)
    assert fresh.extend(A, CHAIN, 0, now=0.1) == 0


def test_an_engine_that_left_has_no_credit_even_after_it_comes_back() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    fresh.forget(A)
    fresh.began(A, CHAIN, now=1.0)
    assert fresh.extend(A, CHAIN, 0, now=1.1) == 0
    fresh.credit(A, CHAIN[:1])
    assert fresh.extend(A, CHAIN, 0, now=12.1) == 1


def test_what_another_gateway_sent_counts_until_it_said() -> None:
    fresh = FreshRoutes(2.0)
    fresh.hear(A, CHAIN[2:], until=13.0, now=10.0)
    assert fresh.extend(A, CHAIN, 2, now=10.0) == 2
    assert fresh.extend_by_hearsay(A, CHAIN, 2, now=12.9) == 6
    assert fresh.extend_by_hearsay(A, CHAIN, 2, now=13.0) == 2
    fresh.hear(B, CHAIN, until=15.0, now=13.0)
    assert A not in fresh.told_of
    assert B in fresh.told_of


def test_what_another_gateway_sent_goes_on_from_what_was_sent_here() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[:3])
    fresh.hear(A, CHAIN[2:5], until=13.0, now=10.0)
    assert fresh.extend_by_hearsay(A, CHAIN, 0, now=10.0) == 5


def test_what_another_gateway_sent_does_not_end_a_credit_of_ours() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN)
    fresh.hear(A, CHAIN, until=13.0, now=10.0)
    assert fresh.extend(A, CHAIN, 0, now=60.0) == 6


def test_an_event_that_speaks_of_what_another_gateway_sent_ends_its_credit() -> None:
    fresh = FreshRoutes(2.0)
    fresh.hear(A, CHAIN, until=13.0, now=10.0)
    fresh.settle(A, CHAIN)
    assert fresh.extend_by_hearsay(A, CHAIN, 0, now=10.0) == 0


def test_of_a_credit_that_must_be_taken_whole_no_part_counts() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[:4])
    assert fresh.extend_to_an_end(A, CHAIN[:3], 0, now=10.0) == 0
    assert fresh.extend_to_an_end(A, CHAIN[:4], 0, now=10.0) == 4
    assert fresh.extend_to_an_end(A, CHAIN, 0, now=10.0) == 4
    assert fresh.extend_to_an_end(A, CHAIN, 1, now=10.0) == 4
    assert fresh.extend_to_an_end(A, [*CHAIN[:3], BlockHash(99)], 0, now=10.0) == 0


def test_the_end_of_a_prompt_is_forgotten_with_its_credit() -> None:
    fresh = FreshRoutes(2.0)
    fresh.credit(A, CHAIN[:4])
    fresh.withdraw(A, CHAIN[:4])
    fresh.credit(A, CHAIN)
    assert fresh.extend_to_an_end(A, CHAIN[:4], 0, now=10.0) == 0


@pytest.mark.parametrize("seed", range(8))
def test_each_block_is_credited_as_long_as_its_latest_prompt_says_however_prompts_part(seed: int) -> None:
    random = Random(seed)
    fresh, until = FreshRoutes(2.0), dict[BlockHash, float]()
    prompts = [[*CHAIN[:part], *(BlockHash(100 * part + number) for number in range(8))] for part in range(6)]
    for step in range(120):
        now, prompt = step / 4, random.choice(prompts)
        match random.choice(("credit", "began", "settle", "withdraw")):
            case "credit":
                fresh.credit(A, prompt)
                until |= dict.fromkeys(prompt, inf)
            case "began":
                fresh.began(A, prompt, now)
                until = {block: time for block, time in until.items() if time > now}
                if until:
                    until |= dict.fromkeys(prompt, now + 2.0)
            case "settle":
                some = prompt[random.randrange(len(prompt)) :][: random.randint(1, 4)]
                fresh.settle(A, some)
                until = {block: time for block, time in until.items() if block not in some or time == inf}
            case "withdraw" if random.random() < 0.2:
                fresh.withdraw(A, prompt)
                until = {block: time for block, time in until.items() if block not in prompt}
        for asked in prompts:
            for depth in range(len(asked)):
                reached = next((at for at in range(depth, len(asked)) if until.get(asked[at], 0.0) <= now), len(asked))
                assert fresh.extend(A, asked, depth, now) == reached
