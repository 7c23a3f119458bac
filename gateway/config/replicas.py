"""The replicas that are named in the configuration."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, HttpUrl

from gateway.config.section import Section
from gateway.kv.sources import Source

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

    def sources(self, ranks: int) -> Mapping[int, Source]:
        """The event streams that are named here, by rank; none where `kv_events` is absent."""
        if self.kv_events is None:
            return {}
        return {
            rank: Source(_behind(self.kv_events, rank), self.kv_replay and _behind(self.kv_replay, rank), "")
            for rank in range(ranks)
        }


def _behind(endpoint: str, rank: int) -> str:
    """Rank 0's endpoint -> that of another rank, on the ports behind it."""
    address, _, port = endpoint.rpartition(":")
    return f"{address}:{int(port) + rank}"
