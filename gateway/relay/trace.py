"""A request's place in a distributed trace, whoever keeps it."""

from typing import Protocol

from gateway.relay.client import Client
from gateway.relay.upstream import RawHeaders


class Trace(Protocol):
    """One request's. A replica's answer ends it by way of the books; `end` is for all others."""

    @property
    def headers(self) -> RawHeaders:
        """By which the replica goes on with the trace; names in lower case."""
        ...

    def end(self, status: int | None) -> None:
        """The gateway answered with this status itself, or nobody was there to be answered."""
        ...


class Tracer(Protocol):
    """Begins traces, or goes on with those that requests bring."""

    def begin(self, client: Client, id: str) -> Trace:
        """A request has come. id: its request id."""
        ...
