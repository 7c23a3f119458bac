from collections.abc import Mapping, Sequence

import pytest

from gateway.config import ModelConfig, ReplicaConfig
from gateway.fleet.offer import offered
from gateway.fleet.probe import ProbeError
from routing.fleet import ModelCard, Replica
from routing.types import ReplicaId

REPLICA = Replica(ReplicaId("r"), "http://r:8000", (ModelCard("base"), ModelCard("lora", parent="base")))
MODELS: Mapping[str, ModelConfig] = {"lora": ModelConfig(pools=("prod",)), "other": ModelConfig(pools=("x",))}


def config(**fields: object) -> ReplicaConfig:
    return ReplicaConfig.model_validate({"url": "http://r:8000", **fields})


@pytest.mark.parametrize(("pool", "names"), [("prod", ["base", "lora"]), ("batch", ["base"]), (None, ["base"])])
def test_a_name_is_served_by_the_pools_that_may(pool: str | None, names: Sequence[str]) -> None:
    assert [card.id for card in offered(REPLICA, config(pool=pool), MODELS).cards] == names


def test_a_replica_whose_base_model_its_pool_may_not_serve_is_left_out() -> None:
    with pytest.raises(ProbeError, match="base is not served by pool batch"):
        offered(REPLICA, config(pool="batch"), {"base": ModelConfig(pools=("prod",))})


def test_a_replica_that_does_not_serve_what_it_should_is_left_out() -> None:
    assert offered(REPLICA, config(model="lora"), {}).cards == REPLICA.cards
    with pytest.raises(ProbeError, match="it serves base, lora, not another"):
        offered(REPLICA, config(model="another"), {})


def test_its_weight_is_the_configured_one() -> None:
    assert offered(REPLICA, config(weight=2.5), {}).weight == 2.5
