"""A replay that a feed has asked for."""

from dataclasses import dataclass


@dataclass(slots=True)
class Replay:
    """A replay under way."""

    deadline: float
    in_doubt: bool = True
    """what is booked must go if there is no answer"""
    proof: bytes | None = None
    """the last applied message; if it does not come back first, the engine is another process"""
    afresh: bool = False
    """what is booked is replaced by what comes"""
