"""What the gateway predicts as cached is what the engine then reports, for every request of every kind."""

import httpx
import pytest
from openai import BadRequestError
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

from tests.engine.exchange import Verdict
from tests.engine.prompts import ask, prose, token_ids
from tests.engine.vllm_cpu.server import BLOCK_SIZE, MODEL, VllmServer
from tests.engine.witness import Witness

EXACT = Verdict.EXACT
TOOLS: list[ChatCompletionFunctionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather at a place, now",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
                "required": ["place"],
            },
        },
    },
    {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}},
]


def test_a_chat_asked_again_is_found_in_the_cache(witness: Witness) -> None:
    for expected in (False, True, True):
        witness.chat(ask("plain chat"))
        assert witness.settle() == {EXACT: 1}
        assert (witness.last.reported > 0) == expected


def test_a_streamed_chat_asked_again_is_found_in_the_cache(witness: Witness) -> None:
    for expected in (False, True, True):
        witness.stream(ask("streamed chat"))
        assert witness.settle() == {EXACT: 1}
        assert (witness.last.reported > 0) == expected


def test_tools_and_their_results_are_part_of_the_prompt(witness: Witness) -> None:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": prose("tools", 60)},
        {"role": "user", "content": "How warm is it in Reykjavík?"},
    ]
    witness.chat(messages, tools=TOOLS)
    assert witness.settle() == {EXACT: 1}
    messages += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"unit": "C", "place": "Reykjavík"}'},
                },
                {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"degrees": 4.5, "sky": "cloudy ☁"}'},
        {"role": "tool", "tool_call_id": "call_2", "content": "12:31"},
    ]
    for _ in range(2):
        witness.stream(messages, tools=TOOLS)
        assert witness.settle() == {EXACT: 1}
        assert witness.last.reported > 0
    messages += [{"role": "assistant", "content": "4.5 °C."}, {"role": "user", "content": "And in °F?"}]
    witness.chat(messages, tools=TOOLS)
    assert witness.settle() == {EXACT: 1}
    witness.chat(messages)
    assert witness.settle() == {EXACT: 1}


def test_twelve_turns_of_a_conversation_stay_on_one_replica(witness: Witness) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": prose("twelve turns", 80)}]
    for turn in range(12):
        messages.append({"role": "user", "content": prose(f"turn {turn}", 20 + turn)})
        if turn % 2:
            answer = "".join(
                chunk.choices[0].delta.content or "" for chunk in witness.stream(messages, 40) if chunk.choices
            )
        else:
            answer = witness.chat(messages, 40).choices[0].message.content or ""
        messages.append({"role": "assistant", "content": answer})
        assert witness.settle() == {EXACT: 1}
    assert len({exchange.replica for exchange in witness.exchanges}) == 1
    cached = [exchange.reported for exchange in witness.exchanges]
    assert cached == sorted(cached)
    assert cached[-1] > 0.9 * len(witness.exchanges[-2].tokens) - BLOCK_SIZE


def test_turns_that_follow_at_once_are_exact_but_for_events_on_their_way(witness: Witness) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": prose("hurried turns", 80)}]
    for turn in range(12):
        messages.append({"role": "user", "content": prose(f"hurried {turn}", 20 + turn)})
        answer = witness.chat(messages, 33).choices[0].message.content or ""
        messages.append({"role": "assistant", "content": answer})
    assert set(witness.settle()) <= {EXACT, Verdict.RACE_WITH_STORE}
    assert len({exchange.replica for exchange in witness.exchanges}) == 1


def test_completions_of_text_and_of_token_ids_share_a_cache(witness: Witness) -> None:
    text = prose("completions", 150)
    witness.complete(text)
    assert witness.settle() == {EXACT: 1}
    witness.complete(text)
    assert witness.settle() == {EXACT: 1}
    witness.complete(witness.last.tokens)
    assert witness.settle() == {EXACT: 1}
    assert witness.last.reported == (len(witness.last.tokens) - 1) // BLOCK_SIZE * BLOCK_SIZE


def test_a_chat_and_its_tokens_as_a_completion_share_a_cache(witness: Witness) -> None:
    witness.chat(ask("chat as completion"))
    assert witness.settle() == {EXACT: 1}
    witness.complete(witness.last.tokens)
    assert witness.settle() == {EXACT: 1}
    assert witness.last.reported > 0


def test_two_interleaved_conversations_keep_their_replicas(witness: Witness) -> None:
    talks: dict[str, list[ChatCompletionMessageParam]] = {"one": [], "two": []}
    went_to: dict[str, set[str]] = {"one": set(), "two": set()}
    for turn in range(5):
        for name, messages in talks.items():
            messages.append({"role": "user", "content": prose(f"{name} {turn}", 70)})
            answer = witness.chat(messages, 20).choices[0].message.content or ""
            messages.append({"role": "assistant", "content": answer})
            assert witness.settle() == {EXACT: 1}
            went_to[name].add(witness.last.replica)
    assert [len(replicas) for replicas in went_to.values()] == [1, 1]


def test_a_prompt_that_just_fills_its_blocks_computes_its_last_block_again(witness: Witness) -> None:
    prompt = token_ids("exact blocks", 4 * BLOCK_SIZE)
    reported = []
    for _ in range(3):
        witness.complete(prompt)
        assert witness.settle() == {EXACT: 1}
        reported.append(witness.last.reported)
    assert reported == [0, 3 * BLOCK_SIZE, 3 * BLOCK_SIZE]
    witness.complete([*prompt, *token_ids("one more", 1)])
    assert witness.settle() == {EXACT: 1}
    assert witness.last.reported == 4 * BLOCK_SIZE


def test_a_storm_of_evictions_is_followed(witness: Witness) -> None:
    prompts = [token_ids(f"storm {number}", 6 * BLOCK_SIZE + number % BLOCK_SIZE + 1) for number in range(50)]
    for step in range(0, 2 * len(prompts), 10):
        for number in range(step, step + 10):
            witness.complete(prompts[(number * 7) % len(prompts)], max_tokens=1)
        assert set(witness.settle()) <= {EXACT, Verdict.RACE_WITH_EVICTION}
    for prompt in reversed(prompts[-20:]):
        witness.complete(prompt, max_tokens=1)
    assert set(witness.settle()) <= {EXACT, Verdict.RACE_WITH_EVICTION}
    again = {exchange.reported // BLOCK_SIZE for exchange in witness.exchanges[len(prompts) :]}
    assert 0 in again, "nothing was evicted"
    assert 6 in again, "everything was evicted"


def test_a_refused_prompt_is_not_taken_for_cached(witness: Witness) -> None:
    with pytest.raises(BadRequestError):
        witness.chat(ask("refused"), max_tokens=-1)
    witness.chat(ask("refused"))
    assert witness.settle() == {EXACT: 1}
    assert witness.last.reported == 0


def test_what_another_client_pushes_out_is_known_at_once(witness: Witness, control: httpx.Client) -> None:
    prompt = token_ids("pushed out", 5 * BLOCK_SIZE + 1)
    witness.complete(prompt, max_tokens=1)
    assert witness.settle() == {EXACT: 1}
    filling = {"model": MODEL, "prompt": token_ids("filling", 125 * BLOCK_SIZE), "max_tokens": 1}
    control.post(f"http://{witness.last.replica}/v1/completions", json=filling).raise_for_status()
    assert witness.settle() == {}
    witness.complete(prompt, max_tokens=1)
    assert witness.settle() == {EXACT: 1}
    assert witness.last.reported < 5 * BLOCK_SIZE


def test_a_reset_cache_is_known_from_the_next_step_on(
    witness: Witness, replicas: list[VllmServer], control: httpx.Client
) -> None:
    witness.chat(ask("before the reset"))
    assert witness.settle() == {EXACT: 1}
    for replica in replicas:
        control.post(f"{replica.url}/reset_prefix_cache").raise_for_status()
        tiny = {"model": MODEL, "prompt": "x", "max_tokens": 1}
        control.post(f"{replica.url}/v1/completions", json=tiny).raise_for_status()
    assert witness.settle() == {}
    for expected in (False, True):
        witness.chat(ask("before the reset"))
        assert witness.settle() == {EXACT: 1}
        assert (witness.last.reported > 0) == expected


def test_a_request_that_carries_the_news_of_a_reset_is_a_race(
    witness: Witness, replicas: list[VllmServer], control: httpx.Client
) -> None:
    witness.chat(ask("reset unheard"))
    assert witness.settle() == {EXACT: 1}
    held = next(replica for replica in replicas if replica.id == witness.last.replica)
    control.post(f"{held.url}/reset_prefix_cache").raise_for_status()
    witness.chat(ask("reset unheard"))
    assert witness.settle() == {Verdict.RACE_WITH_EVICTION: 1}
    witness.chat(ask("reset unheard"))
    assert witness.settle() == {EXACT: 1}
