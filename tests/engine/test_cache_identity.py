"""Which requests share a cache: those of equal ids, salt and adapter, whatever their endpoint."""

from collections.abc import Mapping

import pytest

from tests.engine.asker import Asker
from tests.engine.prompts import prose
from tests.engine.shapes import COMPLETIONS, ENDPOINTS, TAKING_IDS, plain
from tests.engine.telling import ADAPTER
from tests.engine.vllm_cpu.server import BLOCK_SIZE, MODEL


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_two_salts_and_none_never_share(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"salted on {endpoint}", 70))
    salts: tuple[Mapping[str, str], ...] = ({"cache_salt": "a"}, {"cache_salt": "b"}, {})
    for salt in salts:
        first, second = asker.ask(endpoint, {**body, **salt}), asker.ask(endpoint, {**body, **salt})
        assert (first.predicted, first.usage.cached) == (0, 0)
        assert second.predicted == second.usage.cached >= 2 * BLOCK_SIZE
    for salt in salts:
        assert asker.ask(endpoint, {**body, **salt}).predicted == second.predicted


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_model_and_its_adapter_never_share(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"adapted on {endpoint}", 70))
    salted = {**body, "cache_salt": "a"}
    for model, request in ((MODEL, body), (ADAPTER, body), (ADAPTER, salted), (MODEL, salted)):
        first, second = asker.ask(endpoint, request, model), asker.ask(endpoint, request, model)
        assert (first.predicted, first.usage.cached) == (0, 0)
        assert second.predicted == second.usage.cached >= 2 * BLOCK_SIZE
    for model in (MODEL, ADAPTER):
        assert asker.ask(endpoint, body, model).predicted == second.predicted


@pytest.mark.parametrize("endpoint", TAKING_IDS)
@pytest.mark.parametrize("served", [MODEL, ADAPTER])
def test_a_completion_of_another_endpoints_ids_shares_its_cache(served: str, endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"as ids of {endpoint} {served}", 70))
    asker.ask(endpoint, body, served)
    (ids,) = asker.rendered(endpoint, body)
    answer = asker.ask(COMPLETIONS, {"prompt": ids}, served)
    assert answer.predicted == answer.usage.cached == (len(ids) - 1) // BLOCK_SIZE * BLOCK_SIZE
