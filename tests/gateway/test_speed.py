import pytest
from endings import candidate, decision, ended
from prometheus_client import CollectorRegistry

from gateway.relay.usage import Usage
from gateway.speed import SpeedWatch
from routing.cost import PROFILES
from routing.fit import SpeedFit
from routing.fleet import Fleet, ModelCard, Replica


def watched(
    times: int, *, ttft: float | None = 0.4, cached: int = 32, prompt: int = 1000, queue: float = 0.0
) -> CollectorRegistry:
    registry, fleet = CollectorRegistry(), Fleet()
    chosen = decision(candidate("one", l0=32, prompt=prompt, prefill=0.1, queue=queue))
    fleet.join(Replica(chosen.engine.replica, "http://one", (ModelCard("m"),)))
    watch = SpeedWatch(SpeedFit(PROFILES["qwen3-32b-h100"]), fleet, registry)
    for _ in range(times):
        watch.ended(ended(chosen=chosen, usage=Usage(prompt, 5, cached), ttft=ttft))
    return registry


def factor(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("kvgate_engine_time_factor", {"replica": "one", "engine": "0"})


def test_an_engine_that_takes_four_times_as_long_is_known_for_it() -> None:
    registry = watched(100)
    assert factor(registry) == pytest.approx(4.0, rel=0.05)
    errors = {
        by: registry.get_sample_value("kvgate_engine_time_error", {"replica": "one", "engine": "0", "by": by})
        for by in ("fit", "profile")
    }
    assert errors["fit"] is not None
    assert errors["profile"] is not None
    assert errors["fit"] < errors["profile"]
    count = registry.get_sample_value("kvgate_ttft_prediction_error_seconds_count", {"policy": "kv-aware"})
    assert count == 100


@pytest.mark.parametrize(
    ("why", "answers"),
    [
        ("no first token came", {"ttft": None}),
        ("it found other tokens cached than predicted", {"cached": 64}),
        ("hardly anything was to prefill", {"prompt": 60}),
        ("it waited for others in front", {"queue": 0.05}),
    ],
)
def test_what_says_nothing_of_its_speed_moves_nothing(why: str, answers: dict[str, float | None]) -> None:
    assert factor(watched(100, **answers)) == 1.0, why  # type: ignore[arg-type]
