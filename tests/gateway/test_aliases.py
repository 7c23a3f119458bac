from prometheus_client import CollectorRegistry

from gateway.aliases import AliasCollector
from gateway.metrics import Metrics
from routing.fleet import Fleet, Lease, ModelCard, Replica
from routing.types import ReplicaId


def test_the_figures_of_requests_are_there_under_the_operators_names_too() -> None:
    metrics, fleet, registry = Metrics(), Fleet(), CollectorRegistry()
    (engine,) = fleet.join(Replica(ReplicaId("r"), "http://r", (ModelCard("m"),)))
    lease = Lease(engine.load, 10, 10, 0.0)
    for outcome, status in (("complete", "200"), ("complete", "404"), ("engine_error", "500"), ("broken", "200")):
        metrics.requests.labels("m", "kv-aware", "r", outcome, status).inc()
    for replica in ("r", "s"):
        metrics.duration.labels("m", "kv-aware", replica).observe(0.2)
        metrics.ttft.labels("m", "kv-aware", replica).observe(0.02)
    registry.register(AliasCollector(metrics, fleet))
    m = {"model_name": "m"}
    value = registry.get_sample_value
    assert value("model_invocations_total", m) == 4
    assert value("model_errors_total", m) == 2
    assert value("model_concurrent_requests", m) == 1
    assert value("model_latency_milliseconds_count", m) == 2
    assert value("model_latency_milliseconds_sum", m) == 400
    assert value("model_ttfb_milliseconds_bucket", {**m, "le": "10.0"}) == 0
    assert value("model_ttfb_milliseconds_bucket", {**m, "le": "25.0"}) == 2
    assert value("model_ttfb_milliseconds_bucket", {**m, "le": "+Inf"}) == 2
    lease.release(0.0)
