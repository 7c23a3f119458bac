"""One sequence on an engine: its tokens, their block hashes, and how far it has come."""

from array import array
from collections.abc import Sequence

import xxhash

from loadtest.replica.pool import Block

ENGINE_ROOT = int.from_bytes(b"sim-vllm", "big")
"""Parent of every block 0. Not the gateway's root: an engine's hashes mean nothing outside of it."""


class Request:
    """A prompt and what will be sampled after it.

    The engine changes it; others only read. Tokens below `computed` have their KV in `blocks`.
    """

    __slots__ = (
        "block_size",
        "blocks",
        "cached",
        "committed",
        "computed",
        "end_token",
        "hashes",
        "id",
        "output",
        "parted",
        "prompt_length",
        "salt",
        "session",
        "tokens",
    )

    def __init__(
        self,
        id: str,
        prompt: Sequence[int],
        output: Sequence[int],
        block_size: int,
        *,
        end_token: int | None = None,
        salt: str | None = None,
        session: str | None = None,
    ) -> None:
        """prompt, output: token ids, at least one each; the request ends with the last of `output`.

        end_token: the id that, sampled last, means the model stopped by itself.
        salt: keeps its blocks apart from those of other salts (vLLM's `cache_salt`). session: named in its events.
        Raises ValueError if either is empty.
        """
        if not prompt or not output:
            raise ValueError("a request needs a prompt and an output")
        self.id = id
        self.tokens = list(prompt)
        self.prompt_length = len(prompt)
        self.output = output
        self.end_token = end_token
        self.block_size = block_size
        self.salt = salt
        self.session = session
        self.hashes: list[int] = []
        self.blocks: list[Block] = []
        self.committed = 0
        """leading blocks that are findable under this request's hashes"""
        self.computed = 0
        """leading tokens that have been through the model, or were found in the cache"""
        self.cached: int | None = None
        """prompt tokens found in the cache when first scheduled; None before"""
        self.parted = 0
        """leading blocks that full attention has of it and other groups don't allow to use"""
        self._hash_full_blocks()

    @property
    def generated(self) -> int:
        """Output tokens sampled so far."""
        return len(self.tokens) - self.prompt_length

    @property
    def finished(self) -> bool:
        return self.generated == len(self.output)

    @property
    def finish_reason(self) -> str:
        """`stop` or `length`; meaningful once finished."""
        return "stop" if self.tokens[-1] == self.end_token else "length"

    def sample(self) -> int:
        """Append and return the next output token."""
        token = self.output[self.generated]
        self.tokens.append(token)
        if len(self.tokens) % self.block_size == 0:
            self._hash_full_blocks()
        return token

    def extra_keys(self, block: int) -> list[str] | None:
        """What besides its tokens sets the block apart: the salt, in block 0 only, as in vLLM."""
        return [self.salt] if block == 0 and self.salt is not None else None

    def _hash_full_blocks(self) -> None:
        size = self.block_size
        parent = self.hashes[-1] if self.hashes else ENGINE_ROOT
        for block in range(len(self.hashes), len(self.tokens) // size):
            packed = array("I", self.tokens[block * size : (block + 1) * size]).tobytes()
            if block == 0 and self.salt is not None:
                packed += self.salt.encode()
            parent = xxhash.xxh3_64_intdigest(packed, parent)
            self.hashes.append(parent)
