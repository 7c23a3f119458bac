"""What a pod's labels and annotations say of the replica in it; an annotation counts more than a label."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from gateway.fleet.discovery.kube_objects import Meta

PREFIX = "kvgate.io/"
_YES_NO = {"true": True, "false": False}


class Marks(NamedTuple):
    """What is said. An unreadable value counts as not said."""

    model: str | None = None
    pool: str | None = None
    port: int | None = None
    """of its HTTP server, where that is not the Service's"""
    kv_events_port: int | None = None
    kv_replay_port: int | None = None
    weight: float = 1.0
    draining: bool = False
    lmcache_host_tokens: int = 0
    recomputed_blocks: int = 0
    unreadable: tuple[str, ...] = ()
    """`key=value` of what makes no sense"""


def read_marks(metadata: Meta) -> Marks:
    """Read `kvgate.io/model`, `pool`, `port`, `kv-events-port`, `kv-replay-port`, `weight`, `draining`,
    `lmcache-host-tokens` and `recomputed-blocks`."""
    said = {**(metadata.labels or {}), **(metadata.annotations or {})}
    unreadable: list[str] = []

    def refuse(key: str) -> None:
        unreadable.append(f"{PREFIX}{key}={said[PREFIX + key]}")

    def number(key: str, least: int, most: int) -> int | None:
        value = said.get(PREFIX + key)
        if value is None:
            return None
        if value.isascii() and value.isdigit() and least <= int(value) <= most:
            return int(value)
        refuse(key)
        return None

    def port(key: str) -> int | None:
        return number(key, 1, 65535)

    draining = _YES_NO.get(said.get(PREFIX + "draining", "false").lower())
    if draining is None:
        refuse("draining")
    weight = _weight(said)
    if weight is None:
        refuse("weight")
    return Marks(
        model=said.get(PREFIX + "model"),
        pool=said.get(PREFIX + "pool"),
        port=port("port"),
        kv_events_port=port("kv-events-port"),
        kv_replay_port=port("kv-replay-port"),
        weight=1.0 if weight is None else weight,
        draining=bool(draining),
        lmcache_host_tokens=number("lmcache-host-tokens", 0, 10**12) or 0,
        recomputed_blocks=number("recomputed-blocks", 0, 2) or 0,
        unreadable=tuple(unreadable),
    )


def _weight(said: Mapping[str, str]) -> float | None:
    try:
        weight = float(said.get(PREFIX + "weight", "1"))
    except ValueError:
        return None
    return weight if math.isfinite(weight) and weight > 0 else None
