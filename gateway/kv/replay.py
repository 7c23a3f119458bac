"""A replay that a feed has asked for."""

from dataclasses import dataclass

_AGAIN = 1.0


@dataclass(slots=True)
class Replay:
    """A replay under way.

    start: number of the first message asked for.
    asked, deadline: when it was asked for; when it has failed if no more of the answer came.
    """

    start: int
    asked: float
    deadline: float
    in_doubt: bool = True
    """what is booked must go if there is no answer"""
    proof: bytes | None = None
    """the last applied message; if it does not come back first, the engine is another process"""
    afresh: bool = False
    """what is booked is replaced by what comes"""
    answered: bool = False
    """something of the answer came"""
    pause: float = _AGAIN
    """seconds from a request of which nothing was heard to the next"""

    def must_ask_again(self, now: float) -> bool:
        """Whether the request may be lost: it was if it went to a process that was about to end."""
        if self.answered or now < self.asked + self.pause:
            return False
        self.asked, self.pause = now, 2 * self.pause
        return True
