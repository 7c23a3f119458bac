from pathlib import Path

from l2_world import CHUNK, store, stored

from gateway.l2.breaker import Breaker, HintRecord


async def test_false_hints_turn_it_off_for_a_while(tmp_path: Path) -> None:
    store(tmp_path, range(300))
    async with stored(tmp_path, disbelief=1e-9) as world:
        health = world.parts.storage.health
        for false in (False,) * 8 + (True,) * 3:
            health.hint("m", false)
        assert not health.believed
        assert world.metric("off", reason="false_hints") == 1
        assert "did not come" in world.parts.faults()[0]
        assert await world.look_up(range(300)) is None
        assert world.metric("look_ups_total", model="m", outcome="off") == 1
        await world.check()
        found = await world.look_up(range(300))
        assert found is not None
        assert found.tokens == CHUNK
        assert world.metric("hints_total", model="m", outcome="false") == 3


async def test_it_is_seen_how_full_the_storage_is(tmp_path: Path) -> None:
    async with stored(tmp_path) as world:
        await world.check()
        assert 0 < world.metric("used_ratio") < 1


def test_a_few_false_hints_say_nothing_yet() -> None:
    record = HintRecord(level=0.2)
    for _ in range(9):
        record.add(True)
    assert not record.bad
    record.add(True)
    assert record.bad
    record.clear()
    assert (record.bad, record.false_ratio) == (False, 0.0)


def test_a_breaker_opens_after_failures_in_a_row() -> None:
    breaker = Breaker(2)
    breaker.failed()
    breaker.worked()
    breaker.failed()
    assert not breaker.open
    breaker.failed()
    assert breaker.open
    breaker.worked()
    assert not breaker.open
