"""Builds what admission consists of from the configuration."""

import logging
from collections.abc import Callable

from gateway.admission.admission import Admission
from gateway.admission.gate import Gate
from gateway.admission.quota import Quota, Quotas
from gateway.admission.tenants import Keys
from gateway.config import AdmissionConfig, Config, IndexConfig
from gateway.metrics import Metrics

logger = logging.getLogger(__name__)


def admission(config: Config, metrics: Metrics, now: Callable[[], float]) -> Admission | None:
    """Keys, limits and the queue; None where everybody may send everything. now: seconds of a monotonic clock."""
    wanted = config.admission
    if wanted is None:
        return None
    if wanted.asks_for_keys and config.listen.admin_port is None:
        logger.warning(
            "clients need keys and operators need none: /metrics, /explain and the page answer at the clients' port "
            "until listen.admin_port is set"
        )
    gate = Gate(wanted.max_in_flight, wanted.queue, wanted.queue_timeout)
    return Admission(
        _keys(wanted), _quotas(config.index, metrics, now), gate, metrics, client_salt=wanted.client_salt, now=now
    )


def _quotas(index: IndexConfig, metrics: Metrics, now: Callable[[], float]) -> Quotas:
    """Counted in the Redis that the gateways share, if they do."""
    local = Quota(now)
    if index.redis_url is None:
        return local
    from gateway.admission.shared_quota import SharedQuota  # with redis, like all of a shared index
    from gateway.redis.connect import connect

    failed = metrics.shared_limit_faults.labels().inc
    return SharedQuota(connect(index), local, index.key_prefix, index.deadline_ms / 1e3, index.retry, failed, now)


def changed(admission: Admission | None, config: AdmissionConfig | None) -> bool:
    """Take in changed settings. Returns False where that needs a new start: there was none, or shall be none."""
    if admission is None or config is None:
        return admission is None and config is None
    admission.reload(_keys(config), client_salt=config.client_salt)
    tenants = [key.tenant() for key in config.all_keys()]
    admission.gate.resize(config.max_in_flight, config.queue, config.queue_timeout, tenants)
    return True


def _keys(config: AdmissionConfig) -> Keys | None:
    if not config.asks_for_keys:
        return None
    return Keys((key.sha256, key.tenant()) for key in config.all_keys())
