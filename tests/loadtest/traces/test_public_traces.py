"""Figures of the public traces. They are not part of the project: where a folder has them, they are checked."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from loadtest.bounds import infinite, pooled_belady, pooled_lru
from loadtest.replica.timing import PROFILES
from loadtest.report.happened import Happened
from loadtest.report.observed import LIMIT, observe
from loadtest.traces import agentic
from loadtest.traces.files import load
from loadtest.traces.trace import Trace

FOLDER = Path.home() / ".cache/kvgate/traces"
FLEET = 8 * PROFILES["qwen3-32b-h100"].l0_tokens

AGENTS = "agentic_sessions_rle.jsonl.gz"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no public traces in ~/.cache/kvgate/traces")


def public(name: str) -> Trace:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no {name}")
    return load(path)


@pytest.mark.parametrize(
    ("name", "ideal", "lru", "belady"),
    [("conversation_trace.jsonl", 0.373, 0.115, 0.345), ("synthetic_trace.jsonl", 0.650, 0.284, 0.529)],
)
def test_bounds_of_mooncakes_traces(name: str, ideal: float, lru: float, belady: float) -> None:
    trace = public(name)
    lookups, size = list(trace.lookups()), trace.block_size
    assert infinite(lookups, size) == pytest.approx(ideal, abs=0.001)
    assert pooled_lru(lookups, size, FLEET // size) == pytest.approx(lru, abs=0.001)
    assert pooled_belady(lookups, size, FLEET // size) == pytest.approx(belady, abs=0.001)


def test_agents_sessions_share_nearly_everything() -> None:
    assert len(public(AGENTS).requests) == 45_542
    trace = agentic.load(FOLDER / AGENTS, sessions=4)
    assert infinite(trace.lookups(), trace.block_size) == pytest.approx(0.96, abs=0.02)


@pytest.mark.parametrize(("name", "requests"), [("azure_code.csv", 8_819), ("azure_conv.csv", 19_366)])
def test_azures_arrivals_are_all_there(name: str, requests: int) -> None:
    assert len(public(name).requests) == requests


@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        ("conversation_trace.jsonl", (0.115, 0.216, 0.294, 0.358)),
        ("synthetic_trace.jsonl", (0.284, 0.432, 0.585, 0.650)),
    ],
)
@pytest.mark.parametrize(("limit", "within"), [(LIMIT, 0.01), (8192, 0.02)])
def test_lru_curves_of_mooncakes_traces(name: str, ratios: Sequence[float], limit: int, within: float) -> None:
    trace = public(name)
    curve = observe(trace.requests, trace.block_size, Happened(PROFILES["qwen3-32b-h100"], 2), limit).curve
    for fleet, ratio in zip((1, 2, 4, 8), ratios, strict=True):
        assert curve.hit_ratio(fleet * FLEET) == pytest.approx(ratio, abs=within)
