"""A choice in a form that people and programs can read."""

from collections.abc import Mapping, Sequence

from gateway.choosing import Reading
from routing.decision import Candidate

_MS = 1e3


def explanation(
    reading: Reading, policy: str, candidates: Sequence[Candidate], chosen: Candidate, reason: str
) -> Mapping[str, object]:
    """Every candidate with its tiers, load and predicted milliseconds, best first."""
    request = reading.route
    ranked = sorted(candidates, key=lambda candidate: candidate.prediction.cost)
    return {
        "model": request.model,
        "prompt_tokens": request.tokens if request.prompts else None,
        "unscored": reading.reason,
        "policy": policy,
        "replica": chosen.engine.replica,
        "engine": chosen.engine.rank,
        "reason": reason,
        "cached_tokens": chosen.held if request.prompts and request.whole else None,
        "candidates": [_candidate(candidate) for candidate in ranked],
    }


def _candidate(candidate: Candidate) -> Mapping[str, object]:
    load, prediction = candidate.load, candidate.prediction
    return {
        "replica": candidate.engine.replica,
        "engine": candidate.engine.rank,
        "tokens": {
            "l0": candidate.l0,
            "l1": candidate.l1 - candidate.l0,
            "l2": candidate.l2,
            "prefill": candidate.prompt - candidate.held,
        },
        "load": {
            "in_flight": load.in_flight,
            "pending": load.pending,
            "pending_tokens": load.pending_tokens,
            "running": load.report.running,
            "waiting": load.report.waiting,
            "kv_usage": load.report.kv_usage,
        },
        "predicted_ms": {
            "ttft": round(prediction.ttft * _MS, 3),
            "cost": round(prediction.cost * _MS, 3),
            **{term: round(value * _MS, 3) for term, value in prediction._asdict().items()},
        },
    }
