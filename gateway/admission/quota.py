"""Requests and tokens a minute of each tenant, counted in this process."""

from collections.abc import Callable
from typing import Protocol

from gateway.admission.bucket import Bucket
from gateway.admission.tenants import Tenant
from gateway.errors import RateLimited


class Quotas(Protocol):
    """Requests and tokens a minute of each tenant, wherever they are counted."""

    async def take(self, tenant: Tenant, tokens: int) -> None:
        """Take one request of so many tokens. Raises RateLimited, and then takes nothing."""
        ...

    def settle(self, tenant: Tenant, tokens: int) -> None:
        """Take `tokens` more, or give them back where negative."""
        ...

    async def close(self) -> None:
        """End what runs beside the requests."""
        ...


class Quota:
    """Counts each tenant's requests and tokens.

    A request takes the tokens that its body suggests when it comes, and the difference to what it really took when it
    ends. now: seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._buckets: dict[tuple[str, str], Bucket] = {}

    async def take(self, tenant: Tenant, tokens: int) -> None:
        """Take one request of so many tokens. Raises RateLimited, and then takes nothing."""
        now = self._now()
        wanted = [
            (kind, self._bucket(tenant, kind, per_minute, now), amount)
            for kind, per_minute, amount in (
                ("requests", tenant.requests_per_minute, 1),
                ("tokens", tenant.tokens_per_minute, tokens),
            )
            if per_minute is not None
        ]
        for kind, bucket, amount in wanted:
            wait = bucket.wait(amount, now)
            if wait > 0.0:
                raise RateLimited(kind, wait)
        for _, bucket, amount in wanted:
            bucket.take(amount, now)

    def settle(self, tenant: Tenant, tokens: int) -> None:
        """Take `tokens` more, or give them back where negative."""
        if tenant.tokens_per_minute is not None:
            now = self._now()
            self._bucket(tenant, "tokens", tenant.tokens_per_minute, now).take(tokens, now)

    async def close(self) -> None:
        """As `Quotas`; nothing runs."""

    def _bucket(self, tenant: Tenant, kind: str, per_minute: int, now: float) -> Bucket:
        key = (tenant.name, kind)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(per_minute, now)
        elif bucket.per_minute != per_minute:
            bucket.change(per_minute, now)
        return bucket
