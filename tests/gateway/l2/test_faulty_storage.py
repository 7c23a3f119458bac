"""Shared storage that fails, hangs, is full or lies: requests go on, and it is said what is wrong."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from l2_world import CHUNK, Stored, store, stored
from mounts import MISSING, Faulty, can_fail, faulty

pytestmark = pytest.mark.skipif(not can_fail(), reason=MISSING)

TOKENS = range(4 * CHUNK)
DEADLINE = 0.05
PATIENCE = 20.0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    store(folder, TOKENS)
    return folder


@pytest.fixture
def mount(source: Path, tmp_path: Path) -> Iterator[Faulty]:
    with faulty(source, tmp_path) as mounted:
        yield mounted


async def tokens_found(world: Stored) -> int | None:
    found = await world.look_up(TOKENS)
    return found.tokens if found else None


async def healed(world: Stored) -> None:
    """Look after it as the gateway does, until it counts again."""
    async with asyncio.timeout(PATIENCE):
        while not world.parts.storage.health.believed:
            await world.check()
            await asyncio.sleep(0.05)


async def found_again(world: Stored) -> None:
    """Until the kernel has forgotten what it saw."""
    async with asyncio.timeout(PATIENCE):
        while await tokens_found(world) != len(TOKENS):
            await healed(world)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("fault", ["eio-stat", "hang-stat"])
async def test_one_that_fails_or_hangs_is_left_alone_and_taken_up_again(mount: Faulty, fault: str) -> None:
    async with stored(mount.path, deadline=DEADLINE, failures=3) as world:
        mount.fault(fault)
        for _ in range(3):
            assert await tokens_found(world) == 0
        assert world.metric("off", reason="slow") == 1
        assert "does not answer" in world.parts.faults()[0]
        assert await world.look_up(TOKENS) is None
        # An error comes at once, unless the machine is busy with other things.
        outcomes = ("failed", "late") if fault == "eio-stat" else ("late",)
        assert sum(world.metric("look_ups_total", model="m", outcome=outcome) for outcome in outcomes) == 3
        await world.check()
        assert world.metric("off", reason="slow") == 1
        mount.fault("")
        await found_again(world)
        assert world.metric("off", reason="slow") == 0


async def test_a_look_up_that_hangs_costs_the_deadline_and_no_more(mount: Faulty) -> None:
    async with stored(mount.path, deadline=DEADLINE, failures=100, threads=2) as world:
        mount.fault("hang-stat")
        started = time.monotonic()
        assert await asyncio.gather(*(tokens_found(world) for _ in range(50))) == [0] * 50
        # All of them wait at the same time; a second is for a machine that is busy with other things.
        assert time.monotonic() - started < DEADLINE + 1.0
        mount.fault("")
        await found_again(world)


@pytest.mark.parametrize("fault", ["eio-read", "hang-read"])
async def test_files_that_are_there_but_can_not_be_read_do_not_count(mount: Faulty, fault: str) -> None:
    async with stored(mount.path, deadline=1.0, read_deadline=0.2) as world:
        assert await tokens_found(world) == len(TOKENS)
        await world.check()
        assert world.parts.storage.health.believed
        mount.fault(fault)
        await world.check()
        assert world.metric("off", reason="unreadable") == 1
        assert await world.look_up(TOKENS) is None
        await world.check()
        assert not world.parts.storage.health.believed
        assert world.metric("off", reason="slow") == 0, "stat is fine"
        mount.fault("")
        await healed(world)
        assert await tokens_found(world) == len(TOKENS)


async def test_a_full_one_is_read_as_before_and_said_to_be_full(mount: Faulty) -> None:
    async with stored(mount.path, deadline=1.0) as world:
        mount.fault("enospc")
        with pytest.raises(OSError, match="No space"):
            (mount.path / "new").write_bytes(b"x")
        await world.check()
        assert world.metric("used_ratio") == 1.0
        assert await tokens_found(world) == len(TOKENS)


async def test_files_that_were_cut_off_do_not_count(mount: Faulty) -> None:
    async with stored(mount.path, deadline=1.0) as world:
        mount.fault("short")
        assert await tokens_found(world) == 0
        assert world.parts.storage.health.believed


async def test_a_deleted_file_looks_alive_for_a_moment_and_a_new_one_is_seen_at_once(
    mount: Faulty, source: Path
) -> None:
    async with stored(mount.path, deadline=1.0) as world:
        assert await tokens_found(world) == len(TOKENS)
        for file in source.iterdir():
            file.unlink()
        deleted = time.monotonic()
        seen = [await tokens_found(world)]
        async with asyncio.timeout(PATIENCE):
            while seen[-1]:
                await asyncio.sleep(0.05)
                seen.append(await tokens_found(world))
        assert seen[0] == len(TOKENS) or time.monotonic() - deleted > 1.0
        store(source, TOKENS)
        assert await tokens_found(world) == len(TOKENS)


async def test_a_folder_of_many_files_is_as_quick_to_ask(mount: Faulty, source: Path) -> None:
    """5,000 here; as many as `python -m bench.l2_probe --files` says there."""
    for number in range(5_000):
        (source / f"-SEP-models-SEP-q@1@0@{number:016x}@bfloat16.data").touch()
    async with stored(mount.path, deadline=1.0) as world:
        assert await tokens_found(world) == len(TOKENS)
        assert world.metric("look_ups_total", model="m", outcome="answered") == 1
