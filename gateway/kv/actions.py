"""What a feed wants done, and what it counts."""

from dataclasses import dataclass

import msgspec

from gateway.kv.wire import Batch


@dataclass(frozen=True, slots=True)
class Apply:
    """Book this batch."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Clear:
    """Forget everything that was booked for the engine."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for a replay of all messages from number `start` on, and drop the answer to any earlier request."""

    start: int


Action = Apply | Clear | Ask


class FeedCounters(msgspec.Struct):
    """What has happened to one engine's stream."""

    gaps: int = 0
    """times that messages were missing"""
    replays: int = 0
    """replays asked for on joining, after a gap, a new connection or a restart"""
    checks: int = 0
    """replays asked for to see whether a silent engine has said all"""
    failed_replays: int = 0
    """not answered in time, or more came meanwhile than may wait"""
    restarts: int = 0
    clears: int = 0
    unreadable: int = 0
    rebuilds: int = 0
    """times that everything was asked for again because what was booked had turned out wrong"""
    heard_seq: int | None = None
    """number of the last message that came, applied or not"""
    last_seq: int | None = None
    """number of the last applied message"""
    last_ts: float | None = None
    """the engine's clock in it"""
    applied_at: float | None = None
    """our clock (time.monotonic) when it was applied"""
    confirmed_at: float | None = None
    """our clock when last nothing was missing: a message in order, or a complete replay"""
