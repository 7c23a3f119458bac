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
class Tell:
    """Have an update made of this engine. whole: it tells of everything that is booked."""

    engine: EngineId
    whole: bool


Command = Subscription | Leave | Rebuild | Tell | Stop
