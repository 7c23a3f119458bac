"""One request to one replica: lease, send, relay."""

from collections.abc import Callable
from typing import Protocol

from gateway.relay.account import Accounts
from gateway.relay.busy import busy
from gateway.relay.credentials import Credentials
from gateway.relay.deadline import answered_within, ended_within
from gateway.relay.forwarded import FORWARDED, VIA, forwarded
from gateway.relay.headers import NOT_FORWARDED, request_headers
from gateway.relay.inbound import Inbound
from gateway.relay.pool import Pool
from gateway.relay.response import Outcome, Relay
from gateway.relay.upstream import RawHeaders
from gateway.relay.watch import ClientWatch
from routing.decision import Decision
from routing.fleet import Engine, Fleet, Lease
from routing.types import ReplicaId

RANK_HEADER = b"x-data-parallel-rank"
"""vLLM's: which data-parallel rank takes the request."""


class Pools(Protocol):
    """Where the connections are."""

    def pool(self, replica: ReplicaId) -> Pool:
        """The connections to a member of the fleet."""
        ...


class Forwarder:
    """Sends requests where it was decided.

    began: called with a decision whose request has its first byte, and when.
    withdraw: called with a decision whose request was not answered, so that nothing is expected of it.
    now: seconds of a monotonic clock.
    """

    def __init__(
        self,
        fleet: Fleet,
        pools: Pools,
        accounts: Accounts,
        began: Callable[[Decision, float], None],
        withdraw: Callable[[Decision], None],
        credentials: Credentials,
        now: Callable[[], float],
    ) -> None:
        self._began = began
        self._withdraw = withdraw
        self._fleet = fleet
        self._pools = pools
        self._accounts = accounts
        self._credentials = credentials
        self._dropped = NOT_FORWARDED | FORWARDED | {b"x-request-id"}
        self._now = now

    async def forward(
        self,
        inbound: Inbound,
        decision: Decision,
        watch: ClientWatch,
        answering: Callable[[], None] | None = None,
    ) -> Outcome:
        """Send the request and pass the answer on. Returns how it ended.

        answering: called when the head of a good answer has come.
        The lease is back, and the upstream closed, however that is.

        Raises UpstreamError before anything was sent to the client, ClientGone.
        """
        client = inbound.client
        engine = self._fleet.get(decision.engine)
        assert engine is not None, "decided without an await in between"
        lease = Lease(engine.load, decision.prompt_tokens, decision.new_tokens, self._now())
        answered = False
        timer = None
        begun = inbound.arrived
        keeps, replica = inbound.keeps, decision.engine.replica

        def first_byte(at: float) -> None:
            lease.first_token(at)
            self._began(decision, at)

        try:
            pool = self._pools.pool(replica)
            headers = self._headers(inbound, engine, pool.authority)
            begun = self._now()
            with watch:
                method = client.method.encode("ascii")
                answer = pool.send(method, client.target, headers, inbound.body, inbound.upload)
                if inbound.deadline is None:
                    upstream = await answer
                else:
                    upstream = await answered_within(inbound.deadline - self._now(), answer)
                    timer = ended_within(inbound.deadline - self._now(), upstream)
                if upstream.status == 503:
                    raise await busy(upstream)
                if answering is not None and upstream.status < 300:
                    answering()
                relay = Relay(
                    upstream,
                    client,
                    self._now,
                    extra=decision_headers(inbound, decision),
                    hide_usage=inbound.hide_usage,
                    on_first_byte=first_byte,
                    on_id=None if keeps is None else lambda id: keeps(id, replica),
                    counts=inbound.counts,
                )
                outcome = await relay.run()
            answered = outcome.status == 200 and outcome.first_byte_at is not None
        finally:
            lease.release(self._now())
            if timer is not None:
                timer.cancel()
            if not answered:
                self._withdraw(decision)
        self._accounts.ended(inbound, decision, engine.namespace.block_size, outcome, begun, self._now())
        return outcome

    def _headers(self, inbound: Inbound, engine: Engine, authority: bytes) -> RawHeaders:
        client, dropped = inbound.client, self._dropped | self._credentials.withheld
        own = [(b"x-request-id", inbound.id.encode("latin-1")), *forwarded(client)]
        key = self._credentials.headers(engine.id.replica)
        if key:
            own += key
            dropped |= {name for name, _ in key}
        if engine.replica.ranks > 1:
            own.append((RANK_HEADER, b"%d" % engine.id.rank))
            dropped |= {RANK_HEADER}
        if inbound.trace is not None:
            own += inbound.trace.headers
            dropped |= {name for name, _ in inbound.trace.headers}
        if inbound.hide_usage:
            dropped |= {b"accept-encoding"}  # the gateway will look into the answer
        # A body that no length was stated for would be the next request on this connection, whatever it says.
        length = None if client.method == "GET" and not inbound.body else len(inbound.body)
        if inbound.upload is not None:
            length = inbound.upload.length
            if length is None:
                own.append((b"transfer-encoding", b"chunked"))
        return request_headers(client.headers, authority=authority, length=length, dropped=dropped, extra=own)


def decision_headers(inbound: Inbound, decision: Decision) -> list[tuple[bytes, bytes]]:
    """What the client is told of the decision."""
    headers = [
        (b"x-request-id", inbound.id.encode("latin-1")),
        (b"x-kvgate-replica", decision.engine.replica.encode()),
        (b"x-kvgate-policy", decision.policy.encode()),
        (b"via", VIA),
    ]
    if decision.cached_tokens is not None:
        headers.append((b"x-kvgate-cached-tokens", b"%d" % decision.cached_tokens))
    if decision.l2_tokens:
        shared, spared = decision.prediction.shared, decision.prediction.spared
        headers.append((b"x-kvgate-l2-tokens", b"%d" % decision.l2_tokens))
        headers.append((b"x-kvgate-l2-ms", b"load=%.1f saved=%.1f" % (shared * 1e3, (spared - shared) * 1e3)))
    return headers
