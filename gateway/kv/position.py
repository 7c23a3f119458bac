"""How far an event stream is applied, so that another process can go on from there."""

from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_128_digest

from routing.books import Books


class Position(NamedTuple):
    """The last message that was applied."""

    seq: int
    proof: bytes
    """its digest: an engine that gives another message under this number is another process"""
    ts: float
    """the engine's clock in it, seconds since the epoch"""


@dataclass(frozen=True, slots=True)
class Kept:
    """What who followed a stream before has left."""

    books: Books
    position: Position


def proof(payload: bytes) -> bytes:
    """A message's digest. It need not withstand anybody: who sends the messages could as well lie in them."""
    return xxh3_128_digest(payload)
