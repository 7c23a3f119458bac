"""What the caches save each tenant, for whoever pays or bills: tokens, and engine time that was not spent on them."""

from functools import cache

from gateway.metrics import Metrics
from gateway.relay.record import Ended
from routing.cost import Profile


class Savings:
    """Counts by tenant, of which there are as many as keys are configured; "" where no keys are asked for."""

    def __init__(self, metrics: Metrics, profile: Profile) -> None:
        self._profile = profile
        self._prompt_tokens = cache(metrics.tenant_prompt_tokens.labels)
        self._cached_tokens = cache(metrics.tenant_cached_tokens.labels)
        self._saved = cache(metrics.tenant_saved_seconds.labels)

    def ended(self, ended: Ended) -> None:
        """A request is over. Counts where its engine told what was cached."""
        usage = ended.record.usage
        if usage is None or usage.cached_tokens is None:
            return
        tenant = ended.record.tenant
        self._prompt_tokens(tenant).inc(usage.prompt_tokens)
        if usage.cached_tokens:
            self._cached_tokens(tenant).inc(usage.cached_tokens)
            self._saved(tenant).inc(self._profile.spared(usage.cached_tokens))
