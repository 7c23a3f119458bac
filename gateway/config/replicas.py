"""The replicas that are named in the configuration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, HttpUrl, SecretStr

from gateway.config.section import Section
from gateway.kv.sources import Source
from routing.fleet import Replica

_ENDPOINT = r"^tcp://.+:\d+$"


class ReplicaConfig(Section):
    """One vLLM server."""

    url: HttpUrl
    """scheme, host and port; a path is not used"""
    kv_events: Annotated[str, Field(pattern=_ENDPOINT)] | None = None
    """ZMQ endpoint of rank 0's KV events, for engines without `/kv_event_sources`; further ranks follow on the ports
    behind it"""
    kv_replay: Annotated[str, Field(pattern=_ENDPOINT)] | None = None
    """ZMQ endpoint of rank 0's replay socket, likewise"""

    @property
    def origin(self) -> str:
        """The URL without a trailing slash."""
        return str(self.url).rstrip("/")

    kv_topic: str = ""
    """the topic that it publishes under; to tell it from others that connect to the same port, which a `kv_events` with
    host `*` is for"""
    lmcache_host_tokens: Annotated[int, Field(ge=0)] = 0
    """tokens that LMCache inside each engine keeps in host memory. It says what it stores and not what it drops: with 0
    its chunks do not count, else the newest up to this many do"""
    recomputed_blocks: Annotated[int, Field(ge=0, le=2)] = 0
    """blocks at the end of a hit that the engine computes again: 1 with EAGLE or MTP"""
    uid: str = ""
    """tells two servers apart that have one address in turn; a pod's"""
    model: str | None = None
    """the model that it must serve; if it does not, it is left out"""
    pool: str | None = None
    """the group it belongs to, for `models.*.pools`"""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """how much it takes, beside others: requests in flight count divided by it"""
    api_key: SecretStr | None = None
    """sent to it in place of the client's key"""
    draining: bool = False
    """whether it gets no new requests, only what refers to answers it keeps"""

    def sources(self, ranks: int) -> Mapping[int, Source]:
        """The event streams that are named here, by rank; none where `kv_events` is absent."""
        if self.kv_events is None:
            return {}
        return {
            rank: Source(_behind(self.kv_events, rank), self.kv_replay and _behind(self.kv_replay, rank), self.kv_topic)
            for rank in range(ranks)
        }

    def completed(self, replica: Replica) -> Replica:
        """The replica with what it does not tell of itself."""
        return replace(replica, host_tokens=self.lmcache_host_tokens, recomputed_blocks=self.recomputed_blocks)


def _behind(endpoint: str, rank: int) -> str:
    """Rank 0's endpoint -> that of another rank, on the ports behind it."""
    address, _, port = endpoint.rpartition(":")
    return f"{address}:{int(port) + rank}"
