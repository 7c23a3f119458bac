import asyncio

import pytest

from gateway.admission.gate import Gate
from gateway.admission.tenants import Tenant
from gateway.errors import QueueFull, QueueTimeout

A, B = Tenant("a"), Tenant("b", max_in_flight=1)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_most_urgent_is_next_and_among_equals_who_came_first() -> None:
    gate, order = Gate(1, 10, 30.0), []
    await gate.enter(A, 0)

    async def wait(name: str, priority: int) -> None:
        await gate.enter(A, priority)
        order.append(name)
        gate.leave(A)

    tasks = [asyncio.create_task(wait(*one)) for one in (("first", 0), ("second", 0), ("urgent", 5), ("late", -1))]
    await turns()
    assert gate.queued == 4
    gate.leave(A)
    await asyncio.gather(*tasks)
    assert order == ["urgent", "first", "second", "late"]
    assert (gate.in_flight, gate.queued) == (0, 0)


async def test_a_tenant_that_has_its_share_holds_up_nobody_else() -> None:
    gate = Gate(10, 10, 30.0)
    await gate.enter(B, 0)
    waiting = asyncio.create_task(gate.enter(B, 9))
    await turns()
    await gate.enter(A, 0)
    assert not waiting.done()
    gate.leave(B)
    await waiting
    assert gate.in_flight == 2


async def test_a_full_queue_and_a_long_wait_are_refused() -> None:
    gate = Gate(1, 1, 0.02)
    await gate.enter(A, 0)
    waiting = asyncio.create_task(gate.enter(A, 0))
    await turns()
    with pytest.raises(QueueFull):
        await gate.enter(A, 9)
    with pytest.raises(QueueTimeout):
        await waiting
    assert (gate.in_flight, gate.queued) == (1, 0)


async def test_one_that_gives_up_leaves_its_place_whenever_that_is() -> None:
    gate = Gate(1, 10, 30.0)
    await gate.enter(A, 0)
    early, late = asyncio.create_task(gate.enter(A, 0)), asyncio.create_task(gate.enter(A, 0))
    await turns()
    early.cancel()
    await turns()
    gate.leave(A)
    late.cancel()  # it was called in this very moment
    await asyncio.gather(early, late, return_exceptions=True)
    assert (gate.in_flight, gate.queued) == (0, 0)
    await gate.enter(A, 0)


async def test_limits_that_were_raised_count_for_those_who_wait_already() -> None:
    gate = Gate(1, 10, 30.0)
    await gate.enter(B, 0)
    waiting = [asyncio.create_task(gate.enter(tenant, 0)) for tenant in (A, B, B)]
    await turns()
    gate.resize(3, 10, 30.0, [A, Tenant("b", max_in_flight=2)])
    await turns()
    assert [task.done() for task in waiting] == [True, True, False]
    assert (gate.in_flight, gate.queued) == (3, 1)
    gate.leave(B)
    await waiting[2]
    for tenant in (A, B, B):
        gate.leave(tenant)
    assert (gate.in_flight, gate.queued) == (0, 0)
