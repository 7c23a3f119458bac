"""Updates on their way from the thread to the loop."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.kv.actions import FeedCounters
from gateway.kv.update import Outbox, Update
from routing.ledger import Change, Drop, Put, Wipe
from routing.types import BlockHash, EngineId, ReplicaId, Tier

ENGINE, OTHER = EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("b:1"), 0)


def put(*blocks: int) -> Put:
    return Put(Tier.GPU, [BlockHash(block) for block in blocks])


def drop(*blocks: int) -> Drop:
    return Drop(Tier.GPU, [BlockHash(block) for block in blocks])


def update(*changes: Change, engine: EngineId = ENGINE, generation: int = 1, block_size: int | None = 16) -> Update:
    return Update(engine, generation, changes, block_size, frozenset(), FeedCounters())


async def delivered(*updates: Update, budget: int = 4096) -> tuple[list[Update], list[int]]:
    """What the loop gets of updates made while it was busy, and how many of them in each of its turns."""
    received: list[Update] = []
    turns: list[int] = []
    outbox = Outbox(asyncio.get_running_loop(), received.append, budget=budget)
    for one in updates:
        outbox.put(one)
        outbox.flush()
    for _ in range(20):
        before = len(received)
        await asyncio.sleep(0)
        if len(received) > before:
            turns.append(len(received) - before)
    return received, turns


async def test_updates_of_one_engine_become_one() -> None:
    received, _ = await delivered(update(put(1), block_size=None), update(drop(1)), update(put(2), engine=OTHER))
    assert [(one.engine, list(one.changes), one.block_size) for one in received] == [
        (ENGINE, [put(1), drop(1)], 16),
        (OTHER, [put(2)], 16),
    ]


async def test_generations_stay_apart() -> None:
    received, _ = await delivered(update(put(1)), update(put(2), generation=2))
    assert [(one.generation, list(one.changes)) for one in received] == [(1, [put(1)]), (2, [put(2)])]


async def test_what_was_before_a_wipe_is_left_out() -> None:
    received, _ = await delivered(update(put(1)), update(Wipe(None), put(2)))
    assert [list(one.changes) for one in received] == [[Wipe(None), put(2)]]


async def test_a_wiped_tier_does_not_hide_the_other() -> None:
    received, _ = await delivered(update(put(1)), update(Wipe(Tier.GPU)))
    assert [list(one.changes) for one in received] == [[put(1), Wipe(Tier.GPU)]]


async def test_the_loop_has_a_turn_of_its_own_between_large_parts() -> None:
    changes: Sequence[Change] = [put(1, 2, 3), put(4, 5, 6), drop(1)]
    received, turns = await delivered(update(*changes), budget=3)
    assert [change for one in received for change in one.changes] == changes
    assert turns == [1, 1, 1]


async def test_many_small_changes_are_parts_too() -> None:
    changes = [put(number) for number in range(40)]
    received, turns = await delivered(update(*changes), budget=90)
    assert [change for one in received for change in one.changes] == changes
    assert turns == [1, 1, 1, 1]
    assert [len(one.changes) for one in received] == [10, 10, 10, 10]


async def test_a_receiver_that_fails_once_hears_the_next_update() -> None:
    loop = asyncio.get_running_loop()
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: faults.append(context))
    received: list[Update] = []

    def receive(one: Update) -> None:
        received.append(one)
        if len(received) == 1:
            raise ZeroDivisionError

    outbox = Outbox(loop, receive)
    for engine in (ENGINE, OTHER):
        outbox.put(update(put(1), engine=engine))
    outbox.flush()
    for _ in range(5):
        await asyncio.sleep(0)
    assert [one.engine for one in received] == [ENGINE, OTHER]
    assert [type(fault["exception"]) for fault in faults] == [ZeroDivisionError]


async def test_an_update_without_changes_is_delivered() -> None:
    received, _ = await delivered(update())
    assert [list(one.changes) for one in received] == [[]]


def test_nobody_is_told_when_the_loop_has_closed() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    outbox = Outbox(loop, lambda _update: None)
    outbox.put(update(put(1)))
    outbox.flush()
