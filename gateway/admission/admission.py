"""Who may send what, how much of it, and when: everything between a request's arrival and the choice of a replica."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import msgspec

from gateway.admission.gate import Gate
from gateway.admission.quota import Quotas
from gateway.admission.tenants import Keys, Tenant
from gateway.errors import AdmissionRefused, BadRequest, Forbidden, RateLimited, Unauthorized
from gateway.metrics import Metrics
from gateway.relay.response import Ending, Outcome
from gateway.relay.splice import set_member

PRIORITY = b"x-kvgate-priority"
"""How urgent a request is: a whole number, the higher the sooner; 0 where it is absent, and at most the key's."""

_BYTES_PER_TOKEN = 4
"""What a token of a body is taken for until the engine has counted."""
_BYTES_PER_EVENT = 256
"""What a token of a stream takes, for one that was cut before the engine said what it had counted."""

EVERYBODY = Tenant("")
"""Whose requests are where no keys are asked for."""


class Place:
    """A request that was let in. Given back once, synchronously, however it ends."""

    __slots__ = ("_admission", "_estimate", "_left", "tenant", "waited")

    def __init__(self, admission: "Admission", tenant: Tenant, estimate: int, waited: float) -> None:
        """waited: seconds in the queue."""
        self.waited = waited
        self._admission = admission
        self.tenant = tenant
        self._estimate = estimate
        self._left = False

    def leave(self, outcome: Outcome | None) -> None:
        """The request ended. outcome: None where no replica answered. Only the first call counts."""
        if self._left:
            return
        self._left = True
        more = 0
        if outcome is not None and outcome.usage is not None:
            more = outcome.usage.prompt_tokens + outcome.usage.completion_tokens - self._estimate
        elif outcome is not None and outcome.ending is not Ending.COMPLETE:
            more = outcome.sent // _BYTES_PER_EVENT
        self._admission.left(self.tenant, more)


class Admission:
    """Keys, limits and the queue. keys: None where nobody needs one. client_salt: whether a client's own is taken.

    now: seconds of a monotonic clock.
    """

    def __init__(
        self,
        keys: Keys | None,
        quotas: Quotas,
        gate: Gate,
        metrics: Metrics,
        *,
        client_salt: bool,
        now: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._quotas = quotas
        self.gate = gate
        self._metrics = metrics
        self._queue_time = metrics.queue_time.labels()
        self._client_salt = client_salt
        self._now = now

    def reload(self, keys: Keys | None, *, client_salt: bool) -> None:
        """Take in changed keys. What was let in before is not touched."""
        self._keys = keys
        self._client_salt = client_salt

    def tenant(self, fields: Mapping[bytes, bytes]) -> Tenant:
        """Who sends a request with these headers. Raises Unauthorized."""
        if self._keys is None:
            return EVERYBODY
        try:
            return self._keys.tenant(fields)
        except Unauthorized:
            self._refused(EVERYBODY, "key")
            raise

    def allow(self, tenant: Tenant, model: str | None) -> None:
        """Raises Forbidden if this model is not open to the tenant."""
        if not tenant.may_use(model):
            self._refused(tenant, "model")
            raise Forbidden("This API key may not use that model.", "model")

    def salted(self, tenant: Tenant, raw: bytes, own: object) -> bytes:
        """A body with the salt that the tenant's blocks are to have; all else byte for byte.

        own: the body's `cache_salt`, decoded. Raises BadRequest where it has one and none is taken.
        """
        if own is not None and not self._client_salt:
            self._refused(tenant, "salt")
            raise BadRequest("`cache_salt` is set by the gateway.", "cache_salt")
        if tenant.cache_salt is None:
            return raw
        salt = tenant.cache_salt
        if own is not None:
            if not isinstance(own, str):
                raise BadRequest("`cache_salt` must be a string.", "cache_salt")
            # Both in one, of a length that engines take, and no other tenant's whatever a client makes up.
            salt = hashlib.sha256(f"{len(salt)}:{salt}{own}".encode("utf-8", "surrogatepass")).hexdigest()
        return set_member(raw, "cache_salt", msgspec.json.encode(salt))

    async def enter(
        self, tenant: Tenant, fields: Mapping[bytes, bytes], size: int, watch: AbstractContextManager[object]
    ) -> Place:
        """Let a request in. size: bytes of its body. Raises AdmissionRefused, BadRequest, ClientGone."""
        priority = _priority(fields, tenant)
        estimate = max(1, size // _BYTES_PER_TOKEN)
        try:
            await self._quotas.take(tenant, estimate)
        except RateLimited as exc:
            self._refused(tenant, exc.reason)
            raise
        since = self._now()
        try:
            with watch:
                await self.gate.enter(tenant, priority)
        except BaseException as exc:
            self._quotas.settle(tenant, -estimate)
            if isinstance(exc, AdmissionRefused):
                self._refused(tenant, exc.reason)
            raise
        waited = self._now() - since
        self._queue_time.observe(waited)
        return Place(self, tenant, estimate, waited)

    async def close(self) -> None:
        """End what runs beside the requests."""
        await self._quotas.close()

    def left(self, tenant: Tenant, tokens: int) -> None:
        """A request that was let in ended. tokens: taken beyond the estimate."""
        self.gate.leave(tenant)
        if tokens:
            self._quotas.settle(tenant, tokens)

    def _refused(self, tenant: Tenant, reason: str) -> None:
        self._metrics.admission_refused.labels(tenant.name, reason).inc()


def _priority(fields: Mapping[bytes, bytes], tenant: Tenant) -> int:
    text = fields.get(PRIORITY)
    if text is None:
        return 0
    try:
        return min(int(text), tenant.priority)
    except ValueError as exc:
        raise BadRequest(f"`{PRIORITY.decode()}` must be a whole number.", PRIORITY.decode()) from exc
