"""The data-parallel ranks of a replica: engines with a cache each, behind one URL."""

from collections.abc import Iterator, Sequence
from itertools import count

from loadtest.replica.calls import bad_request
from loadtest.replica.driver import Driver
from loadtest.replica.engine import Engine

HEADER = "x-data-parallel-rank"


class Ranks:
    """Which engine takes a call, as vLLM's own balancer has it."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        """drivers: one or more, by rank."""
        self._drivers = drivers
        self._turns = count()

    def __iter__(self) -> Iterator[Engine]:
        return (driver.engine for driver in self._drivers)

    @property
    def block_size(self) -> int:
        """tokens"""
        return self._drivers[0].engine.cache.block_size

    def taking(self, asked: str | None) -> Driver:
        """The one whose rank is asked for, else the one with the least to do. Raises Refusal for a rank too many."""
        number = len(self._drivers)
        if asked is not None and asked.isdecimal():
            if int(asked) >= number:
                raise bad_request(f"data_parallel_rank {asked} is out of range [0, {number}).")
            return self._drivers[int(asked)]
        first = next(self._turns) % number
        return min((*self._drivers[first:], *self._drivers[:first]), key=_work)


def _work(driver: Driver) -> int:
    return 4 * driver.engine.waiting + driver.engine.running
