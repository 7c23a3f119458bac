"""Which gateway follows which engine."""

from collections.abc import Mapping, Sequence
from functools import partial

from xxhash import xxh3_64_intdigest

from gateway.redis.names import engine_name
from routing.types import EngineId


def shares(engines: Sequence[EngineId], gateways: Sequence[str]) -> Mapping[EngineId, str]:
    """Every engine's gateway: nobody has more than one engine more than another.

    Every gateway that knows the same engines and gateways comes to the same answer. Rendezvous hashing under a bound:
    when a gateway joins or leaves, most engines stay where they are.
    """
    if not gateways:
        return {}
    small, over = divmod(len(engines), len(gateways))
    room = dict.fromkeys(gateways, small)
    found: dict[EngineId, str] = {}
    for engine in sorted(engines):
        name = engine_name(engine)
        for gateway in sorted(gateways, key=partial(_rank, name)):
            if room[gateway] > 0 or (room[gateway] == 0 and over > 0):
                over -= room[gateway] == 0
                room[gateway] -= 1
                found[engine] = gateway
                break
    return found


def _rank(engine: str, gateway: str) -> int:
    return xxh3_64_intdigest(f"{gateway} {engine}".encode())
