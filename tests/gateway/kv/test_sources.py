"""vLLM's list of its event sources as addresses to connect to."""

import json

import pytest

from gateway.kv.sources import Source, SourcesError, parse_sources

ON = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": None,
      "buffer_steps": 10000, "hwm": 100000, "max_queue_size": 100000, "topic": ""}  # fmt: skip


@pytest.mark.parametrize(
    ("why", "endpoint", "host", "ours"),
    [
        ("a wildcard", "tcp://*:5557", "10.0.0.3", "tcp://10.0.0.3:5557"),
        ("all IPv4 addresses", "tcp://0.0.0.0:5557", "replica-0", "tcp://replica-0:5557"),
        ("all IPv6 addresses", "tcp://[::]:5557", "fd00::7", "tcp://[fd00::7]:5557"),
        ("all IPv6 addresses, no brackets", "tcp://:::5557", "[fd00::7]", "tcp://[fd00::7]:5557"),
        ("port 0 resolved by the engine", "tcp://10.0.0.9:40123", "replica-0", "tcp://10.0.0.9:40123"),
        ("the engine connects to the gateway", "tcp://kvgate.svc:5557", "10.0.0.3", "tcp://*:5557"),
    ],
)
def test_where_a_rank_publishes(why: str, endpoint: str, host: str, ours: str) -> None:
    sources = parse_sources(json.dumps({"0": ON | {"endpoint": endpoint}}).encode(), host)
    assert sources.by_rank == {0: Source(ours, None, "")}, why
    assert sources.reason is None


def test_ranks_have_addresses_of_their_own() -> None:
    answer = {
        str(rank): ON
        | {"endpoint": f"tcp://*:{5600 + rank}", "replay_endpoint": f"tcp://*:{5700 + rank}", "topic": "kv"}
        for rank in range(2)
    }
    assert parse_sources(json.dumps(answer).encode(), "h").by_rank == {
        0: Source("tcp://h:5600", "tcp://h:5700", "kv"),
        1: Source("tcp://h:5601", "tcp://h:5701", "kv"),
    }


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "no --kv-events-config"),
        ({"0": ON | {"enable_kv_cache_events": False}}, "enable_kv_cache_events"),
        ({"0": ON | {"publisher": "null"}}, "publisher"),
        ({"0": ON | {"endpoint": "ipc:///tmp/kv"}}, "ipc:///tmp/kv"),
    ],
)
def test_no_source_has_a_reason(answer: object, reason: str) -> None:
    sources = parse_sources(json.dumps(answer).encode(), "h")
    assert sources.by_rank == {}
    assert reason in (sources.reason or "")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"x": {}}', b'{"0": {"endpoint": 7}}'])
def test_another_answer_is_refused(body: bytes) -> None:
    with pytest.raises(SourcesError, match="kv_event_sources"):
        parse_sources(body, "h")
