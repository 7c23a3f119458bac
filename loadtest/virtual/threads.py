"""Closed workloads on token ids: chats, tools, one prompt for all, documents, and nothing shared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from loadtest.virtual.workload import Answered, Ask

FIRST_TOKEN, LAST_TOKEN = 1000, 90_000


@dataclass(frozen=True, slots=True)
class Shape:
    """Threads of turns. All lengths in tokens."""

    threads: int
    turns: int
    groups: int
    """shared beginnings; 0 for none; each thread has one of them"""
    shared: int
    """length of a shared beginning"""
    question: int
    """mean length of what a user says"""
    answer: int


SHAPES = {
    "chat": Shape(threads=24, turns=6, groups=4, shared=600, question=92, answer=24),
    "tools": Shape(threads=24, turns=6, groups=4, shared=1100, question=85, answer=24),
    "hot": Shape(threads=24, turns=6, groups=1, shared=600, question=92, answer=24),
    "rag": Shape(threads=40, turns=1, groups=8, shared=1500, question=25, answer=24),
    "unique": Shape(threads=60, turns=1, groups=0, shared=0, question=600, answer=24),
}
"""What a fleet of three replicas of 9,600 tokens can just hold."""


class Threads:
    """So many requests in flight; whose turn is next is drawn among the threads that wait.

    in_flight: requests at once, > 0.
    """

    def __init__(self, shape: Shape, in_flight: int, seed: int) -> None:
        random = Random(seed)
        self._random = random
        self._in_flight = in_flight
        self._answer = shape.answer
        heads = [_tokens(random, shape.shared) for _ in range(shape.groups)] or [[]]
        self._said = [list(heads[thread % len(heads)]) for thread in range(shape.threads)]
        self._questions = [
            [_tokens(random, random.randint(shape.question // 2, shape.question * 3 // 2)) for _ in range(shape.turns)]
            for _ in range(shape.threads)
        ]
        self._waiting = list(range(shape.threads))

    def start(self) -> Iterable[Ask]:
        """The first ones, all at once."""
        return [ask for _ in range(self._in_flight) for ask in self._next(0.0)]

    def follow(self, answered: Answered, now: float) -> Iterable[Ask]:
        """One for each that ended, as long as there are any."""
        thread = answered.ask.thread
        self._said[thread] += answered.ask.output
        if self._questions[thread]:
            self._waiting.append(thread)
        return self._next(now)

    def _next(self, now: float) -> Sequence[Ask]:
        if not self._waiting:
            return ()
        thread = self._waiting.pop(self._random.randrange(len(self._waiting)))
        self._said[thread] += self._questions[thread].pop(0)
        return [Ask(now, tuple(self._said[thread]), _tokens(self._random, self._answer), thread)]


def _tokens(random: Random, count: int) -> list[int]:
    return random.choices(range(FIRST_TOKEN, LAST_TOKEN), k=count)
