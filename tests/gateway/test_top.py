"""What `kvgate top` shows of one document."""

import json
from collections.abc import Mapping
from io import StringIO
from random import Random
from typing import Any

import pytest
from rich.console import Console

from bench.page import World
from gateway.top import view
from routing.fleet import Lease


def engine(replica: str, held: int, events: dict[str, object] | None) -> dict[str, object]:
    return {
        "replica": replica, "engine": 0, "model": "m", "health": "ready", "block_size": 16, "capacity_blocks": 1000,
        "blocks": {"GPU": held, "CPU": 0}, "in_flight": 3, "pending_tokens": 1234, "running": 2, "waiting": 1,
        "kv_usage": 0.1, "events": events,
    }  # fmt: skip


def lines(snapshot: Mapping[str, Any], width: int, height: int) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(view(snapshot, width, height))
    return console.export_text().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50)])
async def test_a_fleet_of_256_engines_fits_the_terminal_and_the_most_urgent_come_first(width: int, height: int) -> None:
    world = World(Random(1))
    world.requests(30)
    Lease(world.engines[77].load, 100, 100, 0.0)
    world.clock += 10  # so that what the engine that works has told is old
    shown = lines(json.loads(await world.snapshots.current()), width, height)
    assert len(shown) <= height
    assert max(map(len, shown)) <= width
    table = next(place for place, line in enumerate(shown) if line.startswith("replica"))
    assert shown[table + 1].startswith(world.engines[77].id.replica)
    assert "late" in shown[table + 1]
    assert sum("first token soonest" in line for line in shown) >= 3


def test_a_document_is_shown_with_its_rates_tiers_and_slowest_decisions() -> None:
    slow, quick = ({
        "id": f"{name}-id", "replica": "b", "prompt_tokens": 500, "reason": f"{name} reason",
        "predicted": {"cached_tokens": 480, "ttft_ms": 20.0}, "outcome": {"cached_tokens": 480, "ttft_ms": ttft},
    } for name, ttft in (("slow", 900.0), ("quick", 20.0)))  # fmt: skip
    snapshot: dict[str, Any] = {
        "policy": "kv-aware",
        "degraded": ["the prompts of m are read by the replicas"],
        "minute": {"requests": 120, "hit_ratio": 0.75, "ttft_p50_ms": 40.0, "ttft_p90_ms": None, "saved_ms": 2500.0},
        "engines": [engine("a", 990, {"late": True}), engine("b", 100, {"late": False}), engine("c", 0, None)],
        "decisions": [quick, slow],
    }
    text = "\n".join(lines(snapshot, 160, 50))
    assert "2.0 requests/s   hit ratio 75.0%   TTFT p50 40 ms  p90 –   prefill saved 2.5 s" in text
    assert "the prompts of m are read by the replicas" in text
    a, b, c = (next(line for line in text.splitlines() if line.startswith(f"{name} ")) for name in "abc")
    assert all(part in a for part in ("late", "99%", "1,234"))
    assert all(part in b for part in ("whole", "10%"))
    assert "none" in c
    assert text.index("slow reason") < text.index("quick reason")
