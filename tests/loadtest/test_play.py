import pytest

from loadtest.play import PlayFailed, play
from loadtest.replica.serve import ReplicaSettings, serve
from loadtest.replica.text import Text
from loadtest.result import Result, table
from loadtest.workload import ChatShape, chat

SHAPE = ChatShape(
    conversations=3, turns=3, groups=1, system_sentences=4, question_sentences=2, begin_within=0.1, pause=0.01
)


async def test_every_turn_is_asked_and_later_ones_find_the_earlier(text: Text) -> None:
    answered: list[None] = []
    async with serve(ReplicaSettings(time_scale=0.01), text) as replica:
        exchanges = await play(replica.url, "sim", chat(SHAPE, 1), 5, lambda: answered.append(None))
        counters = replica.engine.counters
    assert len(exchanges) == len(answered) == SHAPE.requests
    assert counters.prompt == sum(exchange.prompt_tokens for exchange in exchanges)
    assert counters.hit == sum(exchange.cached_tokens for exchange in exchanges)
    assert counters.hit > 0.5 * counters.prompt
    assert all(len(exchange.text.split()) == 5 for exchange in exchanges)
    assert all(0 < exchange.ttft <= exchange.seconds for exchange in exchanges)


async def test_a_refusal_ends_the_play_and_says_why(text: Text) -> None:
    async with serve(ReplicaSettings(time_scale=0.01), text) as replica:
        with pytest.raises(PlayFailed, match=r"HTTP 404.*`other` does not exist"):
            await play(replica.url, "other", chat(SHAPE, 1), 5, lambda: None)


async def test_nobody_at_the_address_is_a_failure_too() -> None:
    with pytest.raises(PlayFailed, match="ConnectError"):
        await play("http://127.0.0.1:9", "sim", chat(SHAPE, 1), 5, lambda: None)


async def test_a_result_is_shown_with_its_shares(text: Text) -> None:
    async with serve(ReplicaSettings(time_scale=0.01), text) as replica:
        exchanges = await play(replica.url, "sim", chat(SHAPE, 1), 2, lambda: None)
    result = Result("kv-aware", 0.5, exchanges, 0.0)
    assert 0 < result.ttft_ms(50) <= result.ttft_ms(90)
    assert table([result]).row_count == 1
