"""Small numbers for members of a changing set, so that a set of members is the bits of one int."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)


class Slots(Generic[Member]):
    """Each member has a slot from 0; a freed slot is the next one given, or the ints would grow with churn."""

    def __init__(self) -> None:
        self._of: dict[Member, int] = {}
        self._owner: dict[int, Member] = {}
        self._free: list[int] = []

    def take(self, member: Member) -> int:
        """The member's slot, a new one if it has none."""
        slot = self._of.get(member)
        if slot is None:
            slot = self._free.pop() if self._free else len(self._of)
            self._of[member] = slot
            self._owner[slot] = member
        return slot

    def free(self, member: Member) -> None:
        """Give the slot back. Raises KeyError for one who has none."""
        slot = self._of.pop(member)
        del self._owner[slot]
        self._free.append(slot)

    def owner(self, slot: int) -> Member:
        """Who has this slot. Raises KeyError where nobody has."""
        return self._owner[slot]

    def mask(self, width: int) -> int:
        """The lowest bit of every taken slot, `width` bits a slot."""
        mask = 0
        for slot in self._owner:
            mask |= 1 << (slot * width)
        return mask
