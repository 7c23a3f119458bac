from endings import candidate, decision, ended
from prometheus_client import CollectorRegistry

from gateway.relay.usage import Usage
from gateway.split import LossSplit


def split(*, delivered: int | None, reusable: int = 80) -> dict[str, float | None]:
    registry = CollectorRegistry()
    chosen = decision(candidate("a", l0=32), candidate("b", l0=64))._replace(reusable_tokens=reusable)
    LossSplit(registry).ended(ended(chosen=chosen, usage=Usage(100, 5, delivered)))
    return {
        stage: registry.get_sample_value(
            "kvgate_prefix_tokens_total", {"model": "m", "policy": "kv-aware", "stage": stage}
        )
        for stage in ("prompt", "reusable", "reachable", "chosen", "delivered")
    }


def test_each_stage_counts_the_same_requests_tokens() -> None:
    assert split(delivered=16) == {"prompt": 100, "reusable": 80, "reachable": 64, "chosen": 32, "delivered": 16}


def test_what_a_replica_holds_can_be_reused_though_this_gateway_never_saw_it() -> None:
    assert split(delivered=32, reusable=0)["reusable"] == 64


def test_what_an_engine_finds_was_there_though_its_events_had_not_come() -> None:
    assert split(delivered=96) == {"prompt": 100, "reusable": 96, "reachable": 96, "chosen": 96, "delivered": 96}


def test_an_answer_that_does_not_report_cached_tokens_is_in_no_stage() -> None:
    assert set(split(delivered=None).values()) == {None}
