"""What things are called in Redis.

    <base>b<8 bytes>      who holds this block: bit `slot * 2 + tier`, little-endian
    <base>slots           slot -> engine, of those whose owner has caught up; <base>version changes with it
    <base>retired, free   slots whose bits are being cleared; that can be given again; <base>next, the first unused
    <base>e:<engine>      record: slot, blocks held, how far its stream is applied, traits of its books
    <base>n:<engine>      the engine's names -> ours, 8 bytes each
    <base>c:<engine>      our names -> copies, where they are not simply one
    <base>o:<engine>      lease of its event stream, expires; <base>w:<engine>, that another gateway wants it
    <base>engines         all that have a record
    <prefix>models        those that keys may be there of
    <prefix>gateways      who is there; <prefix>gossip, the stream in which they tell each other what they do

`<base>` holds a hash tag of the model, so that all of a model is on one shard of a cluster and a script can reach it.
"""

import sys
from array import array
from base64 import urlsafe_b64encode
from collections.abc import Iterable

from xxhash import xxh32_digest

from routing.types import EngineId, ReplicaId

Number = int
"""64 bits: a block's name, ours or the engine's"""


def base(prefix: str, model: str) -> str:
    """What all keys of a model begin with, with a hash tag of three letters.

    Every block's key has it, and one of up to 21 bytes, as by default, takes 16 bytes less memory than a longer one.
    Two models with one tag would only share a shard and a table: block names and engines are apart anyway.
    """
    return f"{prefix}{{{urlsafe_b64encode(xxh32_digest(model.encode()))[:3].decode()}}}"


def engine_name(engine: EngineId) -> str:
    """`10.0.3.7:8000/0`: replica and rank."""
    return f"{engine.replica}/{engine.rank}"


def engine_id(name: str) -> EngineId:
    """The other way."""
    replica, _, rank = name.rpartition("/")
    return EngineId(ReplicaId(replica), int(rank))


def pack(numbers: Iterable[Number]) -> bytes:
    """8 bytes each, little-endian."""
    packed = array("Q", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(packed: bytes) -> "array[Number]":
    """The other way."""
    numbers = array("Q", packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
