"""What the configuration says of a replica that does not tell it itself."""

import pytest

from gateway.config import ConfigError, parse
from gateway.config.replicas import ReplicaConfig
from gateway.kv.sources import Source
from routing.fleet import ModelCard, Replica
from routing.types import ReplicaId

URL = "http://10.0.0.9:8000"


def configured(text: str) -> ReplicaConfig:
    [replica] = parse("replicas:\n  - url: http://10.0.0.9:8000\n" + text).replicas
    return replica


def test_further_ranks_are_on_the_ports_behind() -> None:
    sources = configured("    kv_events: tcp://10.0.0.9:5557\n    kv_replay: tcp://10.0.0.9:5667").sources(2)
    assert sources == {
        0: Source("tcp://10.0.0.9:5557", "tcp://10.0.0.9:5667", ""),
        1: Source("tcp://10.0.0.9:5558", "tcp://10.0.0.9:5668", ""),
    }


def test_an_engine_that_connects_to_us_has_a_topic() -> None:
    sources = configured('    kv_events: "tcp://*:5557"\n    kv_topic: replica-9').sources(1)
    assert sources == {0: Source("tcp://*:5557", None, "replica-9")}


def test_the_replica_is_completed() -> None:
    told = Replica(ReplicaId("10.0.0.9:8000"), URL, (ModelCard("m"),))
    replica = configured("    lmcache_host_tokens: 400000\n    recomputed_blocks: 1").completed(told)
    assert (replica.host_tokens, replica.recomputed_blocks, replica.id) == (400_000, 1, told.id)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigError, match="lmcache_host_tokens"):
        configured("    lmcache_host_tokens: -1")
