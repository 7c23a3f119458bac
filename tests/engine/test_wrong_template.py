"""A gateway that is told of another template than the replica's notices, and asks the replica."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.shapes import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    SHAPES,
)
from tests.engine.telling import SERVED, asking
from tests.engine.vllm_cpu.server import BLOCK_SIZE, MODEL, VllmServer
from tests.engine.waiting import wait_until

TOKENIZED = [
    *(
        f"{CHAT} {name}"
        for name in ("one message", "unicode", "name", "tools", "calls and results", "developer", "effort")
    ),
    *(f"{COMPLETIONS} {name}" for name in ("text", "texts", "ids", "lists of ids", "no special tokens")),
]
"""shapes that /tokenize can express"""
RENDERED = [
    *(f"{CHAT} {name}" for name in ("tool choice none", "documents", "truncated")),
    *(f"{RESPONSES} {name}" for name in ("instructions", "tools, calls and results", "effort")),
    *(f"{MESSAGES} {name}" for name in ("system in blocks", "thinking, tool uses and results", "thinking disabled")),
]
"""shapes that only the engine's render routes can"""


def test_a_wrong_template_is_noticed_and_prompts_are_read_where_the_replica_renders(
    telling_replica: VllmServer, ports: Iterator[int], tmp_path: Path, verdicts: Counter[Verdict]
) -> None:
    with asking(telling_replica, next(ports), {}, tmp_path, verdicts) as asker:
        _wait_until_degraded(asker)
        for shape in (TOKENIZED[0], TOKENIZED[-2], *RENDERED):
            endpoint, body = SHAPES[shape]
            for _ in range(2):
                answer = asker.ask(endpoint, body)
                assert answer.exact
            assert answer.usage.cached >= BLOCK_SIZE


def test_a_wrong_template_is_noticed_and_prompts_are_read_where_the_replica_tokenizes(
    replicas: list[VllmServer], ports: Iterator[int], tmp_path: Path, verdicts: Counter[Verdict]
) -> None:
    with asking(replicas[0], next(ports), SERVED, tmp_path, verdicts) as asker:
        _wait_until_degraded(asker)
        for shape in TOKENIZED:
            endpoint, body = SHAPES[shape]
            for _ in range(2):
                answer = asker.ask(endpoint, body)
                assert answer.exact
            assert answer.usage.cached >= BLOCK_SIZE


def _wait_until_degraded(asker: Asker) -> None:
    def degraded() -> bool:
        readiness: Mapping[str, Any] = asker.gateway.admin.get("/readyz").json()
        return readiness["status"] == "degraded" and MODEL in " ".join(readiness["degraded"])

    wait_until("the gateway is degraded", degraded)
