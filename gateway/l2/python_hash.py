"""CPython's `hash` of a string as another process has it, whose `PYTHONHASHSEED` is known.

Of `hash`, only strings and bytes depend on the seed; integers and tuples of them hash alike in every process.
Source: CPython 3.11 to 3.13, Python/bootstrap_hash.c (the key) and Python/pyhash.c (SipHash-1-3). Up to 3.10 it was
SipHash-2-4.
"""

_MASK = (1 << 64) - 1
_KEY_BYTES = 16
LARGEST_SEED = 4294967295


def string_hash(text: str, seed: int) -> int:
    """`hash(text)` under `PYTHONHASHSEED=seed`.

    text: of Latin-1 characters, which CPython keeps as one byte each.
    seed: 0 to `LARGEST_SEED`.
    """
    if not text:
        return 0
    digest = _siphash13(text.encode("latin-1"), _key(seed))
    signed = digest - (1 << 64) if digest >> 63 else digest
    return -2 if signed == -1 else signed


def _key(seed: int) -> bytes:
    """A linear congruential generator's bytes; zeros for 0."""
    if seed == 0:
        return bytes(_KEY_BYTES)
    state, key = seed, bytearray()
    for _ in range(_KEY_BYTES):
        state = (state * 214013 + 2531011) & 0xFFFFFFFF
        key.append((state >> 16) & 0xFF)
    return bytes(key)


def _siphash13(data: bytes, key: bytes) -> int:
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = (k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573)
    whole = len(data) - len(data) % 8
    last = len(data) << 56 & _MASK | int.from_bytes(data[whole:], "little")
    for word in (*(int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)), last):
        v0, v1, v2, v3 = _round(state[0], state[1], state[2], state[3] ^ word)
        state = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = state
    state = (v0, v1, v2 ^ 0xFF, v3)
    for _ in range(3):
        state = _round(*state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = (v2 + v3) & _MASK
    v3 = _rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & _MASK
    v3 = _rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & _MASK
    v1 = _rotated(v1, 17) ^ v2
    return v0, v1, _rotated(v2, 32), v3


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _MASK
