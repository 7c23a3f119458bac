"""Waiting until a gateway has taken in all that an engine has said."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.engine.gateway_server import GatewayServer
from tests.engine.oracle import Held, held_by
from tests.engine.vllm_cpu.server import VllmServer

SETTLE_DEADLINE = 10.0


def settled(gateway: GatewayServer, replica: VllmServer, rank: int = 0) -> Held:
    """Wait until the gateway has applied the engine's last event. Returns what the engine holds.

    Asserts that /index shows it.
    """
    deadline = time.monotonic() + SETTLE_DEADLINE
    while True:
        held = held_by(replica.replays[rank])
        applied = gateway.series("kvgate_kv_sequence", replica=replica.id, engine=str(rank))
        if (applied or [-1]) == [held.seq]:
            break
        assert time.monotonic() < deadline, f"{replica.id} rank {rank} sent {held.seq}, applied: {applied}"
        time.sleep(0.01)
    shown = _shown(gateway, replica.id, rank)
    blocks, there = shown["blocks"]["GPU"], held.count("GPU")
    # A hybrid model computes again what it holds and can't use. The second copy looks like a block announced again.
    assert blocks == there or (held.windowed and blocks < there), (shown, there)
    assert shown["block_size"] == held.block_size or held.seq < 0, shown
    return held


def _shown(gateway: GatewayServer, replica: str, rank: int) -> Mapping[str, Any]:
    """The gateway's own account of an engine."""
    answer = gateway.admin.get("/index", params={"replica": replica}).raise_for_status()
    engines: Sequence[Mapping[str, Any]] = answer.json()
    return next(engine for engine in engines if engine["engine"] == str(rank))
