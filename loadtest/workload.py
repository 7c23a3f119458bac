"""Conversations to play: what users say, when they begin, and how long they think."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.prose import sentences


@dataclass(frozen=True, slots=True)
class Conversation:
    """One user's chat. The answers are the model's; each turn's prompt holds all that was said before."""

    system: str
    questions: Sequence[str]
    begins: float
    """seconds after the start"""
    pauses: Sequence[float]
    """seconds of thinking before each question but the first"""


@dataclass(frozen=True, slots=True)
class ChatShape:
    """A multi-turn workload. Sentences are about 25 tokens of the simulated replica's tokenizer."""

    conversations: int
    turns: int
    groups: int
    """system prompts; conversations share them in equal parts"""
    system_sentences: int
    question_sentences: int
    begin_within: float
    """seconds over which the conversations begin, at random"""
    pause: float
    """mean seconds of thinking, exponentially distributed"""

    @property
    def requests(self) -> int:
        return self.conversations * self.turns


def chat(shape: ChatShape, seed: int) -> list[Conversation]:
    """The same conversations for the same shape and seed, in the order in which they begin."""
    rng = random.Random(seed)
    systems = [" ".join(sentences(rng, shape.system_sentences)) for _ in range(shape.groups)]
    begins = sorted(rng.uniform(0, shape.begin_within) for _ in range(shape.conversations))
    return [
        Conversation(
            system=systems[index % shape.groups],
            questions=[" ".join(sentences(rng, shape.question_sentences)) for _ in range(shape.turns)],
            begins=begins[index],
            pauses=[rng.expovariate(1 / shape.pause) for _ in range(shape.turns - 1)],
        )
        for index in range(shape.conversations)
    ]
