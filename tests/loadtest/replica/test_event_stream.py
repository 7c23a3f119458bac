"""The simulated replica's KV events as a subscriber gets them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
import zmq
import zmq.asyncio

from loadtest.replica.publisher import Publisher
from loadtest.replica.serve import ReplicaSettings, Served, serve
from loadtest.replica.text import Text

TIMEOUT_MS = 10_000


@pytest_asyncio.fixture
async def context() -> AsyncIterator[zmq.asyncio.Context]:
    one = zmq.asyncio.Context()
    yield one
    one.destroy(linger=0)


@pytest_asyncio.fixture
async def publisher() -> AsyncIterator[Publisher]:
    anywhere = "tcp://127.0.0.1:*"
    async with Publisher(anywhere, anywhere, topic="t", rank=0, buffer_steps=3) as one:
        yield one


async def complete(replica: Served, prompt: Sequence[int]) -> None:
    async with httpx.AsyncClient(base_url=replica.url) as client:
        response = await client.post("/v1/completions", json={"prompt": list(prompt), "max_tokens": 1})
    assert response.status_code == 200


async def replayed(context: zmq.asyncio.Context, endpoint: str, first: int) -> list[list[bytes]]:
    """All frames that come back for a replay request, the end mark included."""
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
    dealer.connect(endpoint)
    await dealer.send_multipart([b"", first.to_bytes(8, "big")])
    answers: list[list[bytes]] = []
    while not answers or answers[-1][-1]:
        answers.append(await dealer.recv_multipart())
    return answers


async def test_a_subscriber_sees_topic_sequence_and_payload(context: zmq.asyncio.Context, replica: Served) -> None:
    subscriber = context.socket(zmq.XSUB)
    subscriber.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
    subscriber.connect(replica.publisher.endpoint)
    await subscriber.send(b"\x01")
    # Once a replay has shown the batch, the subscription may still be on its way: ask until one arrives live.
    prompt = 0
    while not await subscriber.poll(50):
        prompt += 1
        await complete(replica, range(100 * prompt, 100 * prompt + 20))
    topic, sequence, payload = await subscriber.recv_multipart()
    stamp, (event,), rank = msgspec.msgpack.decode(payload)
    assert topic == b""
    assert 0 <= int.from_bytes(sequence, "big") < prompt
    assert isinstance(stamp, float)
    assert rank == 0
    assert event.items() >= {"type": "BlockStored", "block_size": 16, "medium": "GPU", "extra_keys": [None]}.items()
    assert "session_id" not in event


async def test_events_are_out_before_the_first_token(context: zmq.asyncio.Context, replica: Served) -> None:
    await complete(replica, range(40))
    batch, end = await replayed(context, replica.publisher.replay_endpoint, 0)
    assert batch[0] == b""
    assert batch[1] == b""
    assert end == [b"", b"", b"\xff" * 8, b""]
    _, (event,), _ = msgspec.msgpack.decode(batch[3])
    assert event["token_ids"] == list(range(32))


@pytest.mark.parametrize(("first", "expected"), [(0, [2, 3, 4]), (3, [3, 4]), (5, []), (99, [])])
async def test_a_replay_has_what_the_buffer_still_holds(
    context: zmq.asyncio.Context, publisher: Publisher, first: int, expected: list[int]
) -> None:
    for _ in range(5):
        publisher.publish([])
    *batches, _ = await replayed(context, publisher.replay_endpoint, first)
    assert [int.from_bytes(frames[2], "big") for frames in batches] == expected


async def test_what_is_not_a_replay_request_is_ignored(context: zmq.asyncio.Context, publisher: Publisher) -> None:
    dealer = context.socket(zmq.DEALER)
    dealer.connect(publisher.replay_endpoint)
    nonsense: list[list[Any]] = [[b"x"], [b"", b"short"], [b"", b"12345678", b"more"]]
    for frames in nonsense:
        await dealer.send_multipart(frames)
    await dealer.send_multipart([b"", bytes(8)])
    assert await dealer.recv_multipart() == [b"", b"", b"\xff" * 8, b""]


async def test_a_session_is_named_in_the_events_it_caused(context: zmq.asyncio.Context, text: Text) -> None:
    async with serve(ReplicaSettings(blocks=65, time_scale=0.01), text) as replica:
        async with httpx.AsyncClient(base_url=replica.url) as client:
            body = {"prompt": list(range(40)), "max_tokens": 1}
            await client.post("/v1/completions", json=body, headers={"X-Session-ID": "s1"})
        batch, _ = await replayed(context, replica.publisher.replay_endpoint, 0)
        _, (event,), _ = msgspec.msgpack.decode(batch[3])
        assert event["session_id"] == "s1"


async def test_a_taken_port_is_an_error_and_leaves_nothing_behind(publisher: Publisher) -> None:
    with pytest.raises(zmq.ZMQError):
        Publisher(publisher.endpoint, "tcp://127.0.0.1:*", topic="t", rank=0, buffer_steps=3)
