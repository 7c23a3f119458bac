"""What was observed against what is watched: who joins, who leaves, about whom something changed."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gateway.config import ReplicaConfig


class Identity(NamedTuple):
    """What makes a replica itself: two servers that have one address in turn are two replicas."""

    url: str
    """scheme and authority, without a trailing slash"""
    uid: str
    """the pod's; empty where a source has none"""


class Changes(NamedTuple):
    """What has to be done, in this order, so that an address is free before its next owner takes it."""

    leave: tuple[Identity, ...]
    change: tuple[ReplicaConfig, ...]
    join: tuple[ReplicaConfig, ...]


def identity(replica: ReplicaConfig) -> Identity:
    """Who this is."""
    return Identity(replica.origin, replica.uid)


def reconcile(watched: Mapping[Identity, ReplicaConfig], observed: Iterable[ReplicaConfig]) -> Changes:
    """The way from what is watched to what was observed.

    Of several that claim one address, which can be only one server's, the last counts, but none that is draining: it is
    about to go, or gone.
    """
    by_url: dict[str, ReplicaConfig] = {}
    for replica in observed:
        rival = by_url.get(replica.origin)
        if rival is None or rival.draining or not replica.draining:
            by_url[replica.origin] = replica
    wanted = {identity(replica): replica for replica in by_url.values()}
    return Changes(
        leave=tuple(who for who in watched if who not in wanted),
        change=tuple(replica for who, replica in wanted.items() if who in watched and watched[who] != replica),
        join=tuple(replica for who, replica in wanted.items() if who not in watched),
    )
