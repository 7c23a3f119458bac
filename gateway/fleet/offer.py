"""What a replica serves here: what it lists, as far as the configuration lets it."""

from collections.abc import Mapping
from dataclasses import replace

from gateway.config import ModelConfig, ReplicaConfig
from gateway.fleet.probe import ProbeError
from routing.fleet import Replica


def offered(replica: Replica, config: ReplicaConfig, models: Mapping[str, ModelConfig]) -> Replica:
    """The replica with the names that it may serve, and its weight.

    Raises ProbeError for one that does not serve the model that it should, or whose pool may not serve its base model.
    """
    names = [card.id for card in replica.cards]
    if config.model is not None and config.model not in names:
        raise ProbeError(f"it serves {', '.join(names)}, not {config.model}")

    def may(model: str) -> bool:
        pools = models[model].pools if model in models else ()
        return not pools or config.pool in pools

    if not may(replica.base.id):
        raise ProbeError(f"{replica.base.id} is not served by pool {config.pool}")
    return replace(replica, cards=tuple(card for card in replica.cards if may(card.id)), weight=config.weight)
