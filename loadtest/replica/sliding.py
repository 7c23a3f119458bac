"""Sliding-window groups of a simulated hybrid model: what they keep of a prompt, and how far they let a hit reach."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.replica.kv_events import MEDIUM_GPU, BlockRemoved, BlockStored, KVEvent
from loadtest.replica.request import Request

KIND = "sliding_window"


@dataclass(frozen=True, slots=True)
class SlidingSettings:
    """Groups beside the one of full attention."""

    groups: int
    window: int
    """tokens that they look back on"""
    blocks: int = 4096
    """that each of them keeps; vLLM's groups share one pool"""


class SlidingGroups:
    """Groups that keep the same: the window before a prompt's last token, and one where it parts from an earlier one.

    So does vLLM unless told otherwise. Full attention is the group behind them.
    """

    def __init__(self, settings: SlidingSettings, block_size: int) -> None:
        self.settings = settings
        self._needed = max(1, -(-(settings.window - 1) // block_size))
        self._kept: OrderedDict[int, None] = OrderedDict()

    def allowed(self, hashes: Sequence[int], end: int) -> int:
        """The longest prefix, of at most `end` blocks, before whose end a whole window is kept."""
        in_a_row = 0
        for index in range(end - 1, -1, -1):
            in_a_row = in_a_row + 1 if hashes[index] in self._kept else 0
            if in_a_row == self._needed:
                return index + in_a_row
        return in_a_row

    def use(self, hashes: Sequence[int], end: int) -> None:
        """A request goes on from there."""
        for name in hashes[max(0, end - self._needed) : end]:
            self._kept.move_to_end(name)

    def commit(self, request: Request, whole: BlockStored, first: int) -> list[KVEvent]:
        """What the groups tell of a range that full attention stores as `whole`. first: its first block."""
        ends = ((request.prompt_length - 1) // request.block_size, request.parted)
        wanted = {block for end in ends for block in range(max(0, end - self._needed), end)}
        blocks = [block for block in range(first, first + len(whole.block_hashes)) if block in wanted]
        names = [request.hashes[block] for block in blocks]
        new = [name for name in names if name not in self._kept]
        for name in names:
            self._kept[name] = None
            self._kept.move_to_end(name)
        told: list[KVEvent] = [
            BlockStored(
                new, whole.parent_block_hash, whole.token_ids, whole.block_size, None, MEDIUM_GPU, None,
                [request.extra_keys(block) for block in blocks if request.hashes[block] in new], group_idx=group,
                kv_cache_spec_kind=KIND, kv_cache_spec_sliding_window=self.settings.window, session_id=whole.session_id,
            )
            for group in range(self.settings.groups)
        ]  # fmt: skip
        while len(self._kept) > self.settings.blocks:
            gone = self._kept.popitem(last=False)[0]
            told += [BlockRemoved([gone], MEDIUM_GPU, group_idx=group) for group in range(self.settings.groups)]
        return told

    def clear(self) -> None:
        """The cache was emptied."""
        self._kept.clear()
