"""The gateway's tokens are the engine's, on every endpoint and for every shape of request."""

from pathlib import Path
from random import Random

import pytest
from mutations import mutated

from gateway.prompt.reader import PromptReader, load
from gateway.prompt.result import EncodedPrompts
from gateway.prompt.settings import PromptSettings
from tests.engine.asker import Asker
from tests.engine.prompts import ask, prose
from tests.engine.settled import settled
from tests.engine.shapes import CHAT, COMPLETIONS, ENDPOINTS, LIMITS, LONG, REFUSED, SHAPES, UNSCORED, plain
from tests.engine.telling import PERSONA, TEMPLATE
from tests.engine.vllm_cpu.server import BLOCK_SIZE, CONTEXT, MODEL
from tests.engine.waiting import wait_until


@pytest.fixture(scope="module")
def reader(model: Path) -> PromptReader:
    """The gateway's own, in this process."""
    settings = PromptSettings(
        chat_template=TEMPLATE.read_text(), default_template_arguments=PERSONA, max_model_len=CONTEXT
    )
    return load(model, settings)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_ids_are_the_engines(shape: str, asker: Asker, reader: PromptReader) -> None:
    endpoint, body = SHAPES[shape]
    theirs = asker.rendered(endpoint, body)
    ours = reader.read(endpoint, {**LIMITS[endpoint], **body})
    assert isinstance(ours, EncodedPrompts), ours
    assert tuple(tuple(prompt) for prompt in ours.prompts) == theirs
    assert asker.explain(endpoint, {**LIMITS[endpoint], **body})["prompt_tokens"] == sum(map(len, theirs))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_asked_again_is_predicted_exactly(shape: str, asker: Asker) -> None:
    endpoint, body = SHAPES[shape]
    first, second = asker.ask(endpoint, body), asker.ask(endpoint, body)
    for answer in (first, second):
        assert answer.predicted == answer.usage.cached
        assert answer.usage.prompt == sum(map(len, asker.rendered(endpoint, body)))
    assert second.usage.cached >= BLOCK_SIZE


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_stream_asked_again_is_predicted_exactly(endpoint: str, asker: Asker) -> None:
    body = plain(endpoint, prose(f"streamed from {endpoint}", 70))
    first, second = asker.stream(endpoint, body), asker.stream(endpoint, body)
    assert (first.predicted, first.usage.cached) == (0, 0)
    assert second.predicted == second.usage.cached >= 2 * BLOCK_SIZE


def test_of_several_answers_to_a_prompt_the_first_finds_what_was_predicted(asker: Asker) -> None:
    for expected in (0, 2 * BLOCK_SIZE):
        before = asker.counters()
        raw = asker.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=ask("several answers", 70), max_tokens=1, n=3
        )
        assert int(raw.headers["x-kvgate-cached-tokens"]) == expected
        usage = raw.parse().usage
        assert usage is not None
        found_by_others = 2 * 2 * BLOCK_SIZE  # what the first has just stored
        assert asker.counted(before, 3 * usage.prompt_tokens).cached == expected + found_by_others
        settled(asker.gateway, asker.replica)


def test_the_gateways_own_count_of_its_predictions_is_exact(asker: Asker) -> None:
    for name in ("texts", "lists of ids"):
        asker.ask(*SHAPES[f"{COMPLETIONS} {name}"])
    gateway, exact = asker.gateway, {"outcome": "exact"}
    assert gateway.metric("kvgate_predictions_total") == gateway.metric("kvgate_predictions_total", **exact) > 0
    assert gateway.metric("kvgate_miscounted_prompts_total") == 0
    assert gateway.metric("kvgate_unscored_total") == 0


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_body_that_is_nearly_right_is_not_read_otherwise_than_the_engine_reads_it(
    endpoint: str, asker: Asker, reader: PromptReader
) -> None:
    random = Random(endpoint)
    valid = [body for path, body in SHAPES.values() if path == endpoint]
    compared = 0
    for _ in range(150):
        body = {"model": MODEL, **LIMITS[endpoint], **mutated(random, random.choice(valid))}
        ours = reader.read(endpoint, body)
        theirs = asker.control.post(f"{asker.replica.url}{endpoint}/render", json=body)
        if theirs.is_success and isinstance(ours, EncodedPrompts):
            answer = theirs.json()
            ids = [one["token_ids"] for one in (answer if isinstance(answer, list) else [answer])]
            assert [list(prompt) for prompt in ours.prompts] == ids, body
            compared += 1
    assert compared > 15


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_engine_refuses_is_refused_in_its_words(name: str, asker: Asker) -> None:
    endpoint, body = REFUSED[name]
    body = {"model": MODEL, **LIMITS[endpoint], **body}
    ours = asker.control.post(f"{asker.gateway.url}{endpoint}", json=body)
    theirs = asker.control.post(f"{asker.replica.url}{endpoint}", json=body)
    assert 400 <= theirs.status_code < 500
    assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())
    assert asker.ask(CHAT, plain(CHAT, LONG)).exact


@pytest.mark.parametrize("reason", UNSCORED)
def test_what_is_not_scored_is_answered_and_counted(reason: str, asker: Asker) -> None:
    endpoint, body = UNSCORED[reason]
    counted = asker.gateway.metric("kvgate_unscored_total", endpoint=endpoint, reason=reason)
    body = {"model": MODEL, **LIMITS[endpoint], **body}
    answer = asker.control.post(f"{asker.gateway.url}{endpoint}", json=body).raise_for_status()
    assert "x-kvgate-cached-tokens" not in answer.headers
    assert asker.gateway.metric("kvgate_unscored_total", endpoint=endpoint, reason=reason) == counted + 1


def test_every_shape_of_the_parity_check_is_equal(asker: Asker) -> None:
    gateway = asker.gateway
    wait_until(
        "the adapter compared",
        lambda: gateway.metric("kvgate_parity", shape="adapter_tools", outcome="equal") == 1,
    )
    equal = gateway.series("kvgate_parity", outcome="equal")
    assert set(equal) == {1.0}
    assert len(equal) >= 20
    assert gateway.admin.get("/readyz").json()["status"] == "ready"
