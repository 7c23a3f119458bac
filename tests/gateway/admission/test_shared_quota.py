from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from valkey_server import Valkey, valkey

from gateway.admission.quota import Quota
from gateway.admission.shared_quota import SharedQuota
from gateway.admission.tenants import Tenant
from gateway.config import IndexConfig
from gateway.errors import RateLimited
from gateway.redis.connect import connect


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with valkey() as started:
        yield started


def still() -> float:
    return 0.0


@asynccontextmanager
async def quota(
    server: Valkey, failed: Callable[[], None] = lambda: None, now: Callable[[], float] = still, deadline: float = 20.0
) -> AsyncIterator[SharedQuota]:
    client = connect(IndexConfig(redis_url=server.url))
    shared = SharedQuota(client, Quota(now), "test:", deadline, 1.0, failed, now)
    try:
        yield shared
    finally:
        await shared.close()


async def test_gateways_share_a_tenants_requests(server: Valkey) -> None:
    tenant = Tenant("shared", requests_per_minute=3)
    async with quota(server) as one, quota(server) as other:
        for each in (one, other, one):
            await each.take(tenant, 1)
        with pytest.raises(RateLimited) as refusal:
            await other.take(tenant, 1)
        assert 0.0 < refusal.value.retry_after <= 20.0


async def test_tokens_are_settled_for_all(server: Valkey) -> None:
    tenant = Tenant("settled", requests_per_minute=100, tokens_per_minute=1000)
    async with quota(server) as one:
        await one.take(tenant, 100)
        one.settle(tenant, 2000)
    async with quota(server) as other:
        with pytest.raises(RateLimited, match="tokens"):
            await other.take(tenant, 1)
        other.settle(tenant, -2000)
    async with quota(server) as third:
        await third.take(tenant, 800)


async def test_while_it_does_not_answer_each_gateway_counts_for_itself_and_asks_again_later() -> None:
    tenant, at, failures = Tenant("a", requests_per_minute=1), [0.0], [0]

    def failed() -> None:
        failures[0] += 1

    with valkey() as server:
        async with quota(server, failed, lambda: at[0], deadline=0.2) as shared:
            await shared.take(tenant, 1)
            server.pause()
            await shared.take(tenant, 1)
            assert shared.degraded
            with pytest.raises(RateLimited):
                await shared.take(tenant, 1)
            assert failures == [1]
            server.resume()
            at[0] = 2.0
            with pytest.raises(RateLimited):
                await shared.take(tenant, 1)
            assert not shared.degraded
