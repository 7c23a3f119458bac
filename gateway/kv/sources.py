"""Where a replica's KV events come from: vLLM's answer to `GET /kv_event_sources`.

    {"<data-parallel rank>": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557",
                              "replay_endpoint": "tcp://*:5657" or null, "topic": "", ...}, ...}

`{}` means off. The engine binds an address with a wildcard, which then stands for the replica's host, and an IP
address, which is what vLLM makes of `tcp://*:0`. To a name it connects: there the gateway must bind that port. The
replay address is always bound by the engine.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

_WILDCARD_HOSTS = ("*", "0.0.0.0", "::")


class SourcesError(ValueError):
    """The answer is not what vLLM sends; the text says where."""


@dataclass(frozen=True, slots=True)
class Source:
    """The event stream of one data-parallel rank."""

    endpoint: str
    """to connect to, or, with host `*`, to bind"""
    replay_endpoint: str | None
    topic: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The event streams of a replica."""

    by_rank: Mapping[int, Source]
    missing: Mapping[int, str]
    """ranks that publish nothing, with the reason"""

    @property
    def reason(self) -> str | None:
        """Why there is no stream at all; None if there is one."""
        if self.by_rank:
            return None
        return next(iter(self.missing.values()), "KV events are off (no --kv-events-config)")


class _Config(msgspec.Struct):
    enable_kv_cache_events: bool = False
    publisher: str | None = None
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    topic: str = ""


_decode = msgspec.json.Decoder(dict[int, _Config]).decode


def parse_sources(body: bytes, host: str) -> Sources:
    """Read the answer of the replica at `host` (a name or an address; IPv6 with or without brackets).

    Raises SourcesError.
    """
    try:
        configs = _decode(body)
    except msgspec.DecodeError as exc:
        raise SourcesError(f"/kv_event_sources: {exc}") from exc
    by_rank: dict[int, Source] = {}
    missing: dict[int, str] = {}
    for rank, config in sorted(configs.items()):
        if not config.enable_kv_cache_events:
            missing[rank] = "KV events are off (enable_kv_cache_events is false)"
        elif config.publisher == "null":
            missing[rank] = "KV events are not published (publisher is null)"
        elif not config.endpoint.startswith("tcp://"):
            missing[rank] = f"KV events can't be reached from here ({config.endpoint})"
        else:
            replay = config.replay_endpoint
            endpoint = published(config.endpoint, host)
            by_rank[rank] = Source(endpoint, replay and reachable(replay, host), config.topic)
    return Sources(by_rank, missing)


def published(endpoint: str, host: str) -> str:
    """Our side of the address at which a replica at `host` publishes; with host `*` if the replica connects to us."""
    name, port = _split(endpoint)
    if name not in _WILDCARD_HOSTS and not _is_address(name):
        return f"tcp://*:{port}"
    return reachable(endpoint, host)


def reachable(endpoint: str, host: str) -> str:
    """The address to connect to for one that a replica at `host` binds."""
    name, port = _split(endpoint)
    if name in _WILDCARD_HOSTS:
        name = host.strip("[]")
    return f"tcp://[{name}]:{port}" if ":" in name else f"tcp://{name}:{port}"


def _split(endpoint: str) -> tuple[str, str]:
    name, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return name.strip("[]"), port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
