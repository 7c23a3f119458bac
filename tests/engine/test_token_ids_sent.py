"""Token ids beside the messages: the gateway's are what the engine goes by, a client's never reach it."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.prompts import prose
from tests.engine.shapes import (
    CHAT,
    LIMITS,
    MESSAGES,
    RESPONSES,
    SHAPES,
    TAKING_IDS,
    plain,
)
from tests.engine.telling import SERVED, TEMPLATE, asking
from tests.engine.vllm_cpu.server import BLOCK_SIZE, VllmServer


@pytest.mark.parametrize("endpoint", TAKING_IDS)
def test_ids_of_the_clients_do_not_replace_its_messages(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"smuggled to {endpoint}", 70))
    (ids,) = asker.rendered(endpoint, body)
    smuggled = {**body, "kv_transfer_params": {"prompt_token_ids": list(range(1000, 1200)), "other": 1}}
    first, second = asker.ask(endpoint, smuggled), asker.ask(endpoint, body)
    assert first.usage.prompt == second.usage.prompt == len(ids)
    assert (first.predicted, first.usage.cached) == (0, 0)
    assert second.exact
    assert second.usage.cached >= 2 * BLOCK_SIZE


@pytest.fixture(scope="module")
def with_ids(
    telling_replica: VllmServer, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asker]:
    """Of a gateway that sends its ids along; they are others than the engine's where the persona is a witness."""
    folder = tmp_path_factory.mktemp("with-ids")
    template = folder / "template.jinja"
    testimony = "{% if persona == 'a witness' %}" + "They have seen it. " * 10 + "{% endif %}"
    template.write_text(testimony + TEMPLATE.read_text())
    served = {**SERVED, "chat_template": str(template), "send_token_ids": True}
    with asking(telling_replica, next(ports), served, folder, Counter()) as asker:
        yield asker


@pytest.mark.parametrize(
    "shape", [f"{CHAT} one message", f"{CHAT} tools", f"{CHAT} calls and results", f"{CHAT} parts",
              f"{RESPONSES} tools, calls and results", f"{MESSAGES} thinking, tool uses and results"],
)  # fmt: skip
def test_ids_sent_along_change_no_answer(shape: str, asker: Asker, with_ids: Asker, verdicts: Counter[Verdict]) -> None:
    with_ids.verdicts = verdicts
    endpoint, body = SHAPES[shape]
    body = {**body, **{name: 24 for name in LIMITS[endpoint] if name.startswith("max_")}}
    asker.ask(endpoint, body)
    without = asker.ask(endpoint, body)
    along = with_ids.ask(endpoint, body)
    assert along.exact
    assert along == without


@pytest.mark.parametrize("endpoint", TAKING_IDS)
def test_the_engine_goes_by_the_ids_that_it_is_sent(endpoint: str, with_ids: Asker, verdicts: Counter[Verdict]) -> None:
    with_ids.verdicts = verdicts
    body = {
        **plain(endpoint, prose(f"witnessed on {endpoint}", 70)),
        "chat_template_kwargs": {"persona": "a witness"},
        "kv_transfer_params": {"prompt_token_ids": [1, 2, 3]},
    }
    sent = with_ids.explain(endpoint, {**body, "kv_transfer_params": None})["prompt_tokens"]
    first, second = with_ids.ask(endpoint, body), with_ids.ask(endpoint, body)
    assert first.usage.prompt == second.usage.prompt == sent
    (ids,) = with_ids.rendered(endpoint, {**body, "kv_transfer_params": None})
    assert sent > len(ids)
    assert first.exact
    assert second.exact
    assert second.usage.cached >= 3 * BLOCK_SIZE
