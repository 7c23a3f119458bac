"""What `kvgate top` shows of one document."""

from io import StringIO
from typing import Any

from rich.console import Console

from gateway.top import view


def engine(replica: str, held: int, events: dict[str, object] | None) -> dict[str, object]:
    return {
        "replica": replica, "engine": 0, "model": "m", "block_size": 16, "capacity_blocks": 1000,
        "blocks": {"GPU": held, "CPU": 0}, "in_flight": 3, "pending_tokens": 1234, "running": 2, "waiting": 1,
        "kv_usage": 0.1, "events": events,
    }  # fmt: skip


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
    console = Console(width=160, record=True, file=StringIO())
    console.print(view(snapshot))
    text = console.export_text()
    assert "2.0 requests/s   hit ratio 75.0%   TTFT p50 40 ms  p90 –   prefill saved 2.5 s" in text
    assert "the prompts of m are read by the replicas" in text
    a, b, c = (next(line for line in text.splitlines() if f"│ {name} " in line) for name in "abc")
    assert all(part in a for part in ("late", "99% 990", "1,234"))
    assert all(part in b for part in ("whole", "10% 100"))
    assert "none" in c
    assert text.index("slow reason") < text.index("quick reason")
