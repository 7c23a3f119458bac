"""Requests and tokens a minute of each tenant, counted in Redis for all gateways of a deployment."""

import asyncio
import logging
from collections.abc import Callable

from gateway.admission.quota import Quotas
from gateway.admission.tenants import Tenant
from gateway.errors import RateLimited
from gateway.redis.scripts import FAILURES, Client

logger = logging.getLogger(__name__)

# One call, so that two gateways never take the same last request. The clock is Redis's own.
# KEYS: a hash for each limit. ARGV: for each limit what it brings a minute and what is taken; then 1 to take it in any
# case. Returns which limit refuses (0: none) and after how many milliseconds it would not.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = {}
local refused, wait = 0, 0
for i = 1, #KEYS do
  local rate, amount = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local held = redis.call('HMGET', KEYS[i], 'left', 'at')
  local had = rate
  if held[1] then
    had = math.min(rate, tonumber(held[1]) + (now - tonumber(held[2])) / 60000 * rate)
  end
  local missing = math.min(amount, rate) - had
  if missing > 0 and refused == 0 then
    refused, wait = i, math.ceil(missing / rate * 60000)
  end
  left[i] = math.min(rate, had - amount)
end
if refused > 0 and ARGV[2 * #KEYS + 1] == '0' then
  return {refused, wait}
end
for i = 1, #KEYS do
  redis.call('HSET', KEYS[i], 'left', tostring(left[i]), 'at', tostring(now))
  redis.call('PEXPIRE', KEYS[i], 600000)
end
return {0, 0}
"""


class SharedQuota:
    """Counts in Redis, and in this process while Redis can't be had.

    prefix: what every key begins with. deadline: seconds that a request waits for Redis. retry: seconds that Redis is
    left alone after it failed. failed: called for each failure. now: seconds of a monotonic clock.
    """

    def __init__(
        self,
        redis: Client,
        local: Quotas,
        prefix: str,
        deadline: float,
        retry: float,
        failed: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._redis = redis
        self._local = local
        self._prefix = prefix
        self._deadline = deadline
        self._retry = retry
        self._failed = failed
        self._now = now
        self._script = redis.register_script(_TAKE)
        self._again_at = float("-inf")
        self._settling: set[asyncio.Task[object]] = set()

    @property
    def degraded(self) -> bool:
        """Whether each gateway counts for itself now."""
        return self._now() < self._again_at

    async def take(self, tenant: Tenant, tokens: int) -> None:
        """As `Quotas`."""
        kinds = self._limits(tenant, 1, tokens)
        if not kinds:
            return
        answer = await self._run(tenant, kinds, settled=False)
        if answer is None:
            await self._local.take(tenant, tokens)
            return
        refused, wait = answer
        if refused:
            raise RateLimited(kinds[refused - 1][0], wait / 1e3)

    def settle(self, tenant: Tenant, tokens: int) -> None:
        """As `Quotas`; Redis is told beside the request."""
        kinds = [one for one in self._limits(tenant, 0, tokens) if one[0] == "tokens"]
        if not kinds or not tokens:
            return
        if self.degraded:
            self._local.settle(tenant, tokens)
            return
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(self._run(tenant, kinds, settled=True))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def close(self) -> None:
        """Let what is being told be told, and close the connections."""
        await asyncio.gather(*self._settling)
        await self._redis.aclose()

    def _limits(self, tenant: Tenant, requests: int, tokens: int) -> list[tuple[str, int, int]]:
        limits = (("requests", tenant.requests_per_minute, requests), ("tokens", tenant.tokens_per_minute, tokens))
        return [(kind, rate, amount) for kind, rate, amount in limits if rate is not None]

    async def _run(self, tenant: Tenant, kinds: list[tuple[str, int, int]], *, settled: bool) -> tuple[int, int] | None:
        """The script's answer; None while Redis can't be had."""
        if self.degraded:
            return None
        # The braces keep one tenant's keys in one slot of a cluster.
        keys = [f"{self._prefix}limit:{{{tenant.name}}}:{kind}" for kind, _, _ in kinds]
        arguments = [number for _, rate, amount in kinds for number in (rate, amount)]
        try:
            async with asyncio.timeout(self._deadline):
                refused, wait = await self._script(keys=keys, args=[*arguments, int(settled)])
        except FAILURES as exc:
            self._again_at = self._now() + self._retry
            self._failed()
            logger.warning("limits are counted by each gateway for itself: %s", type(exc).__name__)
            return None
        return int(refused), int(wait)
