import asyncio
import subprocess
import sys
from threading import Event

import pytest

from gateway.l2.workers import Saturated, Workers


async def test_results_and_failures_come_back() -> None:
    workers = Workers(2, "test")
    assert await workers.submit(lambda: 7) == 7

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await workers.submit(fail)
    assert workers.outstanding == 0
    workers.close()


async def test_no_more_calls_are_taken_than_may_wait() -> None:
    workers, held = Workers(1, "test"), Event()
    taken = [workers.submit(held.wait) for _ in range(65)]
    with pytest.raises(Saturated):
        workers.submit(held.wait)
    taken[0].cancel()
    assert workers.outstanding == 65
    held.set()
    assert await asyncio.gather(*taken[1:]) == [True] * 64
    assert workers.outstanding == 0
    workers.close()


def test_a_thread_that_hangs_does_not_keep_the_process_alive() -> None:
    program = (
        "import asyncio, time\n"
        "from gateway.l2.workers import Workers\n"
        "async def main():\n"
        "    Workers(1, 'test').submit(lambda: time.sleep(600))\n"
        "    await asyncio.sleep(0.1)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
