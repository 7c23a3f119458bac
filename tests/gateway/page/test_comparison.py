"""Sums over the metrics of losses and of the shadow policy."""

from random import Random

from endings import candidate, decision, ended
from prometheus_client import CollectorRegistry

from gateway.page.comparison import losses, shadow
from gateway.relay.usage import Usage
from gateway.shadow import Shadow
from gateway.split import LossSplit
from routing.policies import POLICIES


def test_nothing_is_shown_before_anything_was_counted() -> None:
    registry = CollectorRegistry()
    LossSplit(registry)
    Shadow(POLICIES["round-robin"](Random(1)), registry)
    assert losses(registry) is None
    assert shadow(registry) is None


def test_losses_are_shares_of_all_prompt_tokens() -> None:
    registry = CollectorRegistry()
    split = LossSplit(registry)
    chosen = decision(candidate("a", l0=400, prompt=1000), candidate("b", l0=600, prompt=1000))
    split.ended(ended(chosen=chosen._replace(reusable_tokens=800), usage=Usage(1000, 1, 300)))
    assert losses(registry) == {"reusable": 0.8, "reachable": 0.6, "chosen": 0.4, "delivered": 0.3}


def test_the_shadow_is_compared_with_what_was_done() -> None:
    registry = CollectorRegistry()
    judge = Shadow(POLICIES["kv-aware"](Random(1)), registry)
    near, far = candidate("a", l0=0, prefill=0.050), candidate("b", l0=64, prefill=0.010)
    judge.judge("m", decision(near, far), None)
    judge.judge("m", decision(far, near), None)
    told = shadow(registry)
    assert told is not None
    assert (told["decisions"], told["the same choice"]) == (2, "50.0%")
    assert (told["tokens held where it went"], told["tokens held where the shadow chose"]) == (64, 128)
    assert told["predicted TTFT where the shadow chose, mean ms"] == 10.0
