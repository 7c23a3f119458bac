"""What a scheduler asks of the block pool: find a prompt's prefix, make room, commit full blocks, free."""

from loadtest.replica.kv_events import FULL_ATTENTION, MEDIUM_GPU, BlockStored
from loadtest.replica.pool import Block, BlockPool
from loadtest.replica.request import Request
from loadtest.replica.sliding import SlidingGroups


class PrefixCache:
    """The blocks of running requests, and the prefixes that later ones can find."""

    def __init__(self, pool: BlockPool, block_size: int, sliding: SlidingGroups | None = None) -> None:
        """sliding: further groups of a hybrid model."""
        self.pool = pool
        self.block_size = block_size
        self._sliding = sliding
        self._group = pool.group = sliding.settings.groups if sliding else 0

    def clear(self) -> bool:
        """Forget every prefix, unless a block is in use; returns whether it was done."""
        done = self.pool.clear()
        if done and self._sliding:
            self._sliding.clear()
        return done

    def find(self, request: Request) -> list[Block]:
        """The longest run of cached blocks from the first.

        The last token is always computed, since its output is wanted: at most floor((L - 1) / B) blocks.
        """
        found: list[Block] = []
        for name in request.hashes[: (len(request.tokens) - 1) // self.block_size]:
            block = self.pool.find(name)
            if block is None:
                break
            found.append(block)
        if self._sliding:
            allowed = self._sliding.allowed(request.hashes, len(found))
            request.parted = len(found) if allowed < len(found) else 0
            del found[allowed:]
        return found

    def fits(self, request: Request, found: list[Block]) -> bool:
        """Whether the whole sequence has room now. Found blocks that are free leave the free list, so they count."""
        revived = sum(block.references == 0 for block in found)
        return self._blocks_for(len(request.tokens)) - len(found) + revived <= self.pool.free

    def adopt(self, request: Request, found: list[Block]) -> None:
        """Start a request on the blocks that `find` gave."""
        self.pool.share(found)
        if self._sliding:
            self._sliding.use(request.hashes, len(found))
        request.blocks = list(found)
        request.committed = len(found)
        request.computed = len(found) * self.block_size

    def grow(self, request: Request, tokens: int) -> bool:
        """Make room for `tokens` more and commit the blocks that they fill.

        A block is committed when its last token goes through the model, so the block that the last sampled token
        fills is committed one step later. Returns False, and changes nothing, if there is no room.
        """
        reach = request.computed + tokens
        full = reach // self.block_size
        if full == request.committed and reach <= len(request.blocks) * self.block_size:
            return True
        missing = self._blocks_for(reach) - len(request.blocks)
        if missing > self.pool.free:
            return False
        request.blocks += self.pool.take(missing)
        self._commit(request, full)
        return True

    def free(self, request: Request) -> None:
        """Give its blocks back, the tail first in line for reuse."""
        self.pool.release(request.blocks[::-1])
        request.blocks = []
        request.committed = 0

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _commit(self, request: Request, full: int) -> None:
        first = request.committed
        if full <= first:
            return
        for block, name in zip(request.blocks[first:full], request.hashes[first:full], strict=True):
            self.pool.name(block, name)
        request.committed = full
        stored = BlockStored(
            block_hashes=request.hashes[first:full],
            parent_block_hash=request.hashes[first - 1] if first else None,
            token_ids=request.tokens[first * self.block_size : full * self.block_size],
            block_size=self.block_size,
            lora_id=None,
            medium=MEDIUM_GPU,
            lora_name=None,
            extra_keys=[request.extra_keys(block) for block in range(first, full)],
            group_idx=self._group,
            kv_cache_spec_kind=FULL_ATTENTION,
            session_id=request.session,
        )
        if self._sliding:
            self.pool.events += self._sliding.commit(request, stored, first)
        self.pool.events.append(stored)
