"""What a policy is."""

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import ClassVar, NamedTuple, Protocol

from routing.decision import Candidate


class PrefixSource(Enum):
    """Where a policy's knowledge of prefixes comes from."""

    NONE = "none"
    """it needs none, so the prompt is not tokenized for it and nothing is predicted"""
    EVENTS = "events"
    HISTORY = "history"
    """the gateway's own decisions"""


class Choice(NamedTuple):
    """Which candidate, and why in a few words."""

    candidate: Candidate
    reason: str


class Policy(Protocol):
    """Chooses among candidates. `random` breaks ties."""

    name: ClassVar[str]
    source: ClassVar[PrefixSource]

    def __init__(self, random: Random) -> None: ...

    def choose(self, candidates: Sequence[Candidate], session: str | None = None) -> Choice:
        """Choose one of `candidates`, at least one. session: what the client calls its conversation."""
        ...
