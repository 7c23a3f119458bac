"""What the event loop tells the thread that receives."""

from dataclasses import dataclass

from gateway.kv.stream import Subscription
from routing.types import EngineId


@dataclass(frozen=True, slots=True)
class Leave:
    """Follow this engine no longer."""

    engine: EngineId


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Forget what is known of this engine and learn it again."""

    engine: EngineId


@dataclass(frozen=True, slots=True)
class Stop:
    """Close everything and return."""


@dataclass(frozen=True, slots=True)
class TellWhole:
    """Have everything told that is booked of this engine."""

    engine: EngineId


Command = Subscription | Leave | Rebuild | TellWhole | Stop
