"""The document that the page and `kvgate top` draw."""

import asyncio
import json
from collections.abc import Mapping
from random import Random
from typing import Any

from bench.page import ENGINES, World
from gateway.page.traffic import SLICE
from routing.fleet import Lease


async def document(world: World) -> Mapping[str, Any]:
    world.clock += 1.0
    told: Mapping[str, Any] = json.loads(await world.snapshots.current())
    return told


async def test_events_of_an_engine_that_works_are_late_when_nothing_was_confirmed_for_seconds() -> None:
    world = World(Random(1))
    world.clock += 10
    Lease(world.engines[3].load, 100, 100, 0.0)
    rows = {row["replica"]: row for row in (await document(world))["engines"]}
    assert len(rows) == ENGINES
    assert [name for name, row in rows.items() if row["events"]["late"]] == [world.engines[3].id.replica]
    assert rows[world.engines[3].id.replica]["events"]["confirmed_s_ago"] == 11.0


async def test_all_who_look_within_a_second_get_one_document() -> None:
    world = World(Random(1))
    documents = await asyncio.gather(*(world.snapshots.current() for _ in range(3)))
    assert documents[0] is documents[1] is documents[2]
    world.clock += 0.5
    assert await world.snapshots.current() is documents[0]
    world.clock += 0.5
    assert await world.snapshots.current() is not documents[0]


async def test_slices_and_decisions_that_are_over_stay_and_new_ones_come() -> None:
    world = World(Random(1))
    world.requests(3)
    first = await document(world)
    world.clock += SLICE
    world.requests(2)
    second = await document(world)
    assert [part["requests"] for part in second["series"]] == [3, 2]
    assert second["series"][0] == first["series"][0]
    assert second["decisions"][2:] == first["decisions"]
    assert (second["decided"], second["minute"]["requests"]) == (5, 5)


async def test_the_loop_does_other_work_between_the_parts_of_a_document() -> None:
    world, turns = World(Random(1)), 0
    making = asyncio.create_task(world.snapshots.current())
    while not making.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > ENGINES / 32
