from prometheus_client import CollectorRegistry

from gateway.config.saturation import Saturation
from gateway.fleet.signals import SignalsCollector
from routing.cost import PROFILES, predict
from routing.fleet import Engine, Fleet, Lease, ModelCard, Replica
from routing.load import Report
from routing.types import ReplicaId


def test_an_engine_with_a_long_queue_or_a_full_cache_is_saturated() -> None:
    fleet, registry = Fleet(), CollectorRegistry()
    for name, model in (("a", "m"), ("b", "m"), ("c", "m"), ("d", "other")):
        fleet.join(Replica(ReplicaId(name), f"http://{name}", (ModelCard(model),)))

    def queue(engine: Engine, now: float) -> float:
        return predict(PROFILES["qwen3-32b-h100"], engine.load, 0, 0, 0, 0.0, now).queue

    registry.register(SignalsCollector(fleet, queue, Saturation(queue_ms=500, kv_usage=0.9), lambda: 0.0))

    def wait(replica: str) -> float | None:
        return registry.get_sample_value("kvgate_predicted_queue_milliseconds", {"replica": replica, "engine": "0"})

    def share(model: str) -> float | None:
        return registry.get_sample_value("kvgate_saturated_share", {"model": model})

    assert (wait("a"), share("m"), share("other")) == (0.0, 0.0, 0.0)
    queued, full = (engine for engine in fleet if engine.id.replica in "ab")
    lease = Lease(queued.load, 20_000, 20_000, 0.0)
    full.load.report = Report(kv_usage=0.95)
    assert (wait("a") or 0) > 500
    assert share("m") == 2 / 3
    lease.release(0.0)
    full.load.report = Report()
    assert (wait("a"), share("m")) == (0.0, 0.0)
