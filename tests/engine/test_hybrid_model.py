"""A model of which some layers look back a window only: what it finds is what every KV-cache group allows."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.prompts import prose, token_ids
from tests.engine.shapes import CHAT, COMPLETIONS
from tests.engine.telling import asking
from tests.engine.vllm_cpu.install import cache_folder, make_hybrid
from tests.engine.vllm_cpu.server import BLOCK_SIZE, Ports, VllmServer

BLOCKS = 560
"""of all groups together; an engine starts with no fewer"""


@pytest.fixture(scope="module")
def hybrid(binaries: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("hybrid")
    where = Ports(next(ports), next(ports), next(ports))
    model = make_hybrid(binaries, cache_folder())
    with VllmServer(binaries, model, where, folder / "replica.log", blocks=BLOCKS) as server:
        server.start()
        server.wait_until_ready()
        with asking(server, next(ports), {}, folder, Counter()) as asker:
            yield asker


@pytest.fixture
def asker(hybrid: Asker, verdicts: Counter[Verdict]) -> Asker:
    hybrid.verdicts = verdicts
    return hybrid


def test_the_same_prompt_again_is_found(asker: Asker) -> None:
    body = {"prompt": token_ids("hybrid, again", 500)}
    first, second = asker.ask(COMPLETIONS, body), asker.ask(COMPLETIONS, body)
    assert (first.predicted, first.usage.cached) == (0, 0)
    assert second.exact
    assert second.usage.cached == 15 * BLOCK_SIZE


def test_a_shared_beginning_that_full_attention_holds_is_not_found_where_the_window_is_gone(asker: Asker) -> None:
    shared = token_ids("hybrid, shared", 300)
    asker.ask(COMPLETIONS, {"prompt": shared + token_ids("hybrid, one end", 200)})
    other = asker.ask(COMPLETIONS, {"prompt": shared + token_ids("hybrid, other end", 200)})
    assert other.exact
    assert other.usage.cached == 0


def test_a_conversation_goes_on_from_its_last_turn(asker: Asker) -> None:
    messages = [{"role": "user", "content": prose("hybrid conversation", 150)}]
    cached = []
    for turn in range(5):
        answer = asker.ask(CHAT, {"messages": messages})
        assert answer.exact, turn
        cached.append(answer.usage.cached)
        messages += [
            {"role": "assistant", "content": prose(f"hybrid answer {turn}", 40)},
            {"role": "user", "content": prose(f"hybrid question {turn}", 60)},
        ]
    assert cached[0] == 0
    assert len(set(cached)) > 1


def test_no_more_is_predicted_than_is_left_when_more_comes_than_there_is_room_for(asker: Asker) -> None:
    random = Random(5)
    prompts = [token_ids(f"hybrid storm {number}", random.randrange(100, 900)) for number in range(24)]
    found = set()
    exact = 0
    for number in range(80):
        prompt = random.choice(prompts)
        asked = prompt[: random.randrange(len(prompt) // 2, len(prompt))] if random.random() < 0.3 else prompt
        if random.random() < 0.3:
            asked = asked + token_ids(f"hybrid tail {number}", random.randrange(1, 200))
        answer = asker.ask(COMPLETIONS, {"prompt": asked})
        assert answer.predicted is not None
        assert answer.predicted <= answer.usage.cached, number
        found.add(answer.usage.cached // BLOCK_SIZE)
        exact += answer.exact
    assert exact > 70
    assert 0 in found
    assert len(found) > 5
