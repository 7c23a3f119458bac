"""How engines and LMCache name what lies in shared storage: hashes that chain one chunk of tokens to the one before.

Each function gives the chain of one of the three writers. Sources: LMCache 0.5.6 `v1/token_database.py` (inside the
engine) and `v1/multiprocess/token_hasher.py` (its server); vLLM 0.32 `v1/core/kv_cache_utils.py` and
`utils/hashing.py`.
"""

import hashlib
import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cbor2
import xxhash
from blake3 import blake3

from gateway.l2.python_hash import string_hash

ChunkHash = bytes | int
"""A digest; LMCache inside the engine keeps its first 8 bytes as a number, and `builtin` gives negative ones too."""

Function = Callable[[object], ChunkHash]
DEFAULT_SEED = "vllm-none-hash"
"""What vLLM >= 0.29 begins its chains with where `PYTHONHASHSEED` is not set."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The hashes of a prompt's successive chunks."""

    root: ChunkHash
    """stands before chunk 0"""
    step: Callable[[ChunkHash, Sequence[int], str | None], ChunkHash]
    """hash of the chunk before, the chunk's tokens, the salt of chunk 0 (None behind it) -> hash"""


def hex_of(name: ChunkHash) -> str:
    """As it stands in file names."""
    return f"{name:x}" if isinstance(name, int) else name.hex()


def _sha256_cbor(value: object) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def _sha256(value: object) -> bytes:
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


def _xxhash_cbor(value: object) -> bytes:
    return xxhash.xxh3_128_digest(cbor2.dumps(value, canonical=True))


def _xxhash(value: object) -> bytes:
    return xxhash.xxh3_128_digest(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


DIGESTS: dict[str, Callable[[object], bytes]] = {
    "sha256_cbor": _sha256_cbor,
    "sha256": _sha256,
    "xxhash_cbor": _xxhash_cbor,
    "xxhash": _xxhash,
}
"""vLLM's functions, by the names of its `--prefix-caching-hash-algo`."""


def in_process_chain(algorithm: str, seed: int | None) -> Chain:
    """LMCache inside the engine. It knows neither salts nor adapters.

    algorithm: `pre_caching_hash_algorithm`: `builtin` or one of `DIGESTS`.
    seed: the engines' `PYTHONHASHSEED`; None where it is not set.
    Raises ValueError for functions whose chains begin at random without a seed, so that no two engines share a name.
    """
    function: Function = hash if algorithm == "builtin" else DIGESTS[algorithm]
    if algorithm == "builtin":
        root: ChunkHash = string_hash(str(_needed(seed, algorithm)), _needed(seed, algorithm))
    else:
        root = _none_hash(algorithm, seed)

    def step(parent: ChunkHash, tokens: Sequence[int], salt: str | None) -> ChunkHash:
        return _number(function((parent, tuple(tokens), ())))

    return Chain(_number(root), step)


def server_chain(algorithm: str, seed: int | None) -> Chain:
    """LMCache's server (its multi-process mode). Salts are in the file's name, not in the hash.

    algorithm: `--hash-algorithm`: `blake3` or one of `DIGESTS`. seed: as for `in_process_chain`; `blake3` needs none.
    Raises ValueError likewise.
    """
    if algorithm == "blake3":
        return Chain(_blake3_step(bytes(8), (0,), None), _blake3_step)
    function = DIGESTS[algorithm]

    def step(parent: ChunkHash, tokens: Sequence[int], salt: str | None) -> ChunkHash:
        return function((parent, tuple(tokens), None))

    return Chain(_none_hash(algorithm, seed), step)


def engine_chain(algorithm: str, seed: int | None) -> Chain:
    """vLLM's own blocks, as its file system tier stores them. The salt is in the hash of block 0.

    algorithm: one of `DIGESTS`. seed: as for `in_process_chain`. Raises ValueError likewise.
    """
    function = DIGESTS[algorithm]

    def step(parent: ChunkHash, tokens: Sequence[int], salt: str | None) -> ChunkHash:
        return function((parent, tuple(tokens), (("cache_salt", salt),) if salt else None))

    return Chain(_none_hash(algorithm, seed), step)


def _none_hash(algorithm: str, seed: int | None) -> bytes:
    if algorithm.startswith("xxhash"):
        seed = _needed(seed, algorithm)
    return DIGESTS[algorithm](DEFAULT_SEED if seed is None else str(seed))


def _needed(seed: int | None, algorithm: str) -> int:
    if seed is None:
        raise ValueError(f"with {algorithm} engines share nothing unless PYTHONHASHSEED is set in all of them")
    return seed


def _number(hash_: ChunkHash) -> int:
    return hash_ if isinstance(hash_, int) else int.from_bytes(hash_[:8], "big")


def _blake3_step(parent: ChunkHash, tokens: Sequence[int], salt: str | None) -> ChunkHash:
    assert isinstance(parent, bytes)
    return blake3(parent + struct.pack(f">{len(tokens)}I", *tokens)).digest()
