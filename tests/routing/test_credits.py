from math import inf
from random import Random

import pytest

from routing.credits import Credits
from routing.types import BlockHash, EngineId, ReplicaId

A, B = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)
CHAIN = [BlockHash(number) for number in range(100)]
OTHER = [*CHAIN[:40], *(BlockHash(1000 + number) for number in range(20))]


def test_what_two_prompts_have_in_common_counts_as_long_as_either_says() -> None:
    credits = Credits()
    credits.lengthen(A, CHAIN, 10.0)
    credits.lengthen(A, OTHER, 12.0)
    credits.lengthen(A, CHAIN[:5], 11.0)
    credits.expire(10.0)
    assert credits.reach(A, CHAIN, 0, now=10.0) == 40
    assert credits.reach(A, OTHER, 0, now=11.9) == 60
    credits.expire(12.0)
    assert A not in credits.engines


def test_what_is_settled_again_counts_until_its_new_end() -> None:
    credits = Credits()
    credits.lengthen(A, CHAIN, 10.0)
    credits.settle(A, CHAIN[50:])
    credits.lengthen(A, CHAIN, 20.0)
    credits.expire(10.0)
    assert credits.reach(A, CHAIN, 0, now=10.0) == 100


def test_a_prompt_evicted_from_its_end_counts_as_far_as_it_is_left() -> None:
    credits = Credits()
    credits.lengthen(A, CHAIN, 10.0)
    credits.settle(A, CHAIN[:69:-1])
    assert credits.reach(A, CHAIN, 0, now=1.0) == 70
    credits.settle(A, [CHAIN[20], CHAIN[3], CHAIN[4], CHAIN[60]])
    assert [credits.reach(A, CHAIN, depth, now=1.0) for depth in (0, 5, 21, 61)] == [3, 20, 60, 70]


def test_what_is_no_chain_and_has_a_block_twice_is_credited_and_withdrawn() -> None:
    credits = Credits()
    credits.lengthen(A, [*CHAIN, *OTHER], inf)
    assert credits.reach(A, OTHER, 0, now=1.0) == 60
    credits.withdraw(A, [*CHAIN, *OTHER])
    assert A not in credits.engines


def test_an_engine_that_was_forgotten_keeps_what_it_is_credited_with_later() -> None:
    credits = Credits()
    credits.lengthen(A, CHAIN, 10.0)
    credits.lengthen(B, CHAIN, 10.0)
    credits.forget(A)
    credits.lengthen(A, CHAIN, 20.0)
    credits.expire(10.0)
    assert credits.reach(A, CHAIN, 0, now=10.0) == 100
    assert B not in credits.engines


@pytest.mark.parametrize("seed", range(12))
def test_every_block_counts_as_long_as_it_was_said_to_however_prompts_part_and_events_come(seed: int) -> None:
    random, numbers = Random(seed), iter(range(10_000))
    prompts: list[list[BlockHash]] = [[]]
    for _ in range(10):
        before = random.choice(prompts)
        before = before[: random.randint(0, len(before))]
        prompts.append([*before, *(BlockHash(next(numbers)) for _ in range(random.randint(1, 9)))])
    credits, until, ends = Credits(), dict[BlockHash, float](), set[BlockHash]()
    for step in range(150):
        now, prompt = step / 4, random.choice(prompts)
        part = prompt[random.randint(0, len(prompt)) :][: random.randint(1, 6)]
        random.choice((list.sort, list.reverse, random.shuffle))(part)
        match random.choice(("lengthen", "set_end", "settle", "withdraw", "expire")):
            case "lengthen":
                end = random.choice((inf, now + random.random() * 4))
                credits.lengthen(A, prompt, end)
                until |= {block: max(end, until.get(block, 0.0)) for block in prompt}
                ends |= set(prompt[-1:])
            case "set_end":
                credits.set_end(A, prompt, now + 2.0)
                until |= dict.fromkeys(prompt, now + 2.0)
                ends |= set(prompt[-1:])
            case "settle":
                credits.settle(A, part)
                until = {block: end for block, end in until.items() if end == inf or block not in part}
            case "withdraw":
                credits.withdraw(A, part)
                until = {block: end for block, end in until.items() if block not in part}
            case "expire":
                credits.expire(now)
                until = {block: end for block, end in until.items() if end > now}
        ends &= until.keys()
        assert (A in credits.engines) == bool(until)
        for asked in prompts:
            for depth in range(len(asked)):
                reached = next((at for at in range(depth, len(asked)) if until.get(asked[at], 0.0) <= now), len(asked))
                ended = [at + 1 for at in range(depth, reached) if asked[at] in ends]
                assert credits.reach(A, asked, depth, now) == reached
                assert credits.reach_an_end(A, asked, depth, now) == (ended[-1] if ended else depth)
