"""What a place is that chunks are stored in, and how far a prompt is followed there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

LINEAR_UP_TO = 32
"""Chunks that are asked for one by one; further ones are galloped over."""


@dataclass(slots=True)
class Progress:
    """How far a look-up has come, for whoever runs out of patience with it."""

    chunks: int = 0
    """leading chunks that are known to be there"""


class Store(Protocol):
    """Knows which chunks are there."""

    def leading(self, chunks: Sequence[Sequence[str]], progress: Progress) -> int:
        """How many chunks from the first are there. Blocks, perhaps for long; called in a thread.

        chunks: the names of each chunk's parts, all of which are needed. progress: kept current.
        Raises OSError if the place can't be asked.
        """
        ...

    def check(self) -> float:
        """Ask something that no cache answers. Blocks likewise. Returns how full the place is, 0 to 1.

        Raises OSError.
        """
        ...

    def read(self) -> None:
        """Read a little of what was found lately. Blocks likewise. Raises OSError if that can't be read."""
        ...

    def forget(self) -> None:
        """Remember nothing of what was seen."""
        ...

    def close(self) -> None:
        """Nothing more will be asked."""
        ...


def leading(count: int, present: Callable[[int], bool], progress: Progress) -> int:
    """How many of `count` chunks are there from the first, asking for few of them.

    The first `LINEAR_UP_TO` are asked for one by one. Behind them a stretch counts as there if its ends are: chunks of
    a prompt are written in order, and what deletes by age takes the first of them first.
    """
    for index in range(min(count, LINEAR_UP_TO)):
        if not present(index):
            return index
        progress.chunks = index + 1
    there, step = min(count, LINEAR_UP_TO), LINEAR_UP_TO
    absent = count + 1
    while there < count and absent > there + 1:
        asked = min(there + step, count) if absent > count else (there + absent) // 2
        if present(asked - 1):
            there = progress.chunks = asked
            step *= 2
        else:
            absent = asked
    return there
