"""`GET /v1/models`: every name that some replica answers to, and the gateway's own for them."""

from collections.abc import Mapping

from gateway.admission.tenants import Tenant
from gateway.api.refusal import Answer, json_answer
from routing.fleet import Fleet


def models(fleet: Fleet, aliases: Mapping[str, str], tenant: Tenant) -> Answer:
    """Those that are open to the tenant."""
    cards = {card.id: card for engine in fleet for card in engine.replica.cards}
    named = {**{id: id for id in cards}, **{alias: model for alias, model in aliases.items() if model in cards}}
    data = [
        {"id": name, "object": "model", "created": cards[id].created, "owned_by": cards[id].owned_by,
         "root": cards[id].root, "parent": cards[id].parent, "max_model_len": cards[id].max_model_len}
        for name, id in named.items()
        if tenant.may_use(name)
    ]  # fmt: skip
    return json_answer(200, {"object": "list", "data": data})
