from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.bucket import Bucket
from gateway.admission.quota import Quota
from gateway.admission.tenants import Tenant
from gateway.errors import RateLimited


@dataclass
class Clock:
    at: float = 0.0

    def __call__(self) -> float:
        return self.at


async def takes(quota: Quota, tenant: Tenant, tokens: int = 1) -> float | None:
    """None if it was let through, else after how many seconds it may come again."""
    try:
        await quota.take(tenant, tokens)
    except RateLimited as exc:
        return exc.retry_after
    return None


async def test_a_minutes_requests_may_come_at_once_and_then_evenly() -> None:
    clock = Clock()
    quota, tenant = Quota(clock), Tenant("a", requests_per_minute=6)
    assert [await takes(quota, tenant) for _ in range(7)] == [None] * 6 + [10.0]
    clock.at = 10.0
    assert [await takes(quota, tenant) for _ in range(2)] == [None, 10.0]


async def test_a_changed_rate_counts_at_once_and_what_was_taken_stays_taken() -> None:
    clock = Clock()
    quota = Quota(clock)
    slow, fast = Tenant("a", requests_per_minute=2), Tenant("a", requests_per_minute=60)
    assert [await takes(quota, slow) for _ in range(3)] == [None, None, 30.0]
    assert await takes(quota, fast) == 1.0
    clock.at = 60.0
    assert [await takes(quota, fast) for _ in range(60)] == [None] * 60
    clock.at = 100.0
    assert [await takes(quota, slow) for _ in range(3)] == [None, None, 30.0]


async def test_tokens_are_settled_when_they_have_been_counted() -> None:
    clock = Clock()
    quota, tenant = Quota(clock), Tenant("a", tokens_per_minute=600)
    assert await takes(quota, tenant, 100) is None
    quota.settle(tenant, 1100)
    assert await takes(quota, tenant, 100) == pytest.approx(70.0)
    quota.settle(tenant, -1100)
    assert await takes(quota, tenant, 500) is None


async def test_what_one_limit_refuses_the_other_does_not_count() -> None:
    quota, tenant = Quota(Clock()), Tenant("a", requests_per_minute=2, tokens_per_minute=10)
    await quota.take(tenant, 10)
    with pytest.raises(RateLimited, match="tokens"):
        await quota.take(tenant, 10)
    quota.settle(tenant, -10)
    assert await takes(quota, tenant, 10) is None


async def test_more_than_a_minutes_worth_is_let_through_when_nothing_was_taken() -> None:
    quota, tenant = Quota(Clock()), Tenant("a", tokens_per_minute=10)
    assert await takes(quota, tenant, 1000) is None
    assert await takes(quota, tenant, 1) is not None


async def test_tenants_do_not_share_and_without_a_limit_there_is_none() -> None:
    quota = Quota(Clock())
    assert await takes(quota, Tenant("a", requests_per_minute=1)) is None
    assert await takes(quota, Tenant("b", requests_per_minute=1)) is None
    assert [await takes(quota, Tenant("c"), 10**9) for _ in range(100)] == [None] * 100


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 40)), max_size=80), st.integers(1, 100))
def test_no_more_goes_through_than_a_minutes_worth_and_what_time_brings(
    steps: list[tuple[float, int]], per_minute: int
) -> None:
    now, taken = 0.0, 0
    bucket = Bucket(per_minute, now)
    for pause, amount in steps:
        now += pause
        if bucket.wait(amount, now) == 0.0:
            bucket.take(amount, now)
            taken += amount
        # What is more than a full bucket may be overdrawn once.
        assert taken <= per_minute * (1 + now / 60.0) + 40 + 1e-6
