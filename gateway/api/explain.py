"""A choice in a form that people and programs can read: before it is made, and after."""

from collections.abc import Mapping, Sequence

from gateway.decisions import Kept
from gateway.reading import Reading
from routing.cost import UNPREDICTED
from routing.decision import Candidate

_MS = 1e3


def explanation(
    reading: Reading, policy: str, candidates: Sequence[Candidate], chosen: Candidate, reason: str
) -> Mapping[str, object]:
    """Every candidate with its tiers, load and predicted milliseconds, best first."""
    request = reading.route
    return {
        "model": request.model,
        "prompt_tokens": request.tokens if request.prompts else None,
        "unscored": reading.reason,
        "policy": policy,
        "replica": chosen.engine.replica,
        "engine": chosen.engine.rank,
        "reason": reason,
        "cached_tokens": chosen.held if request.prompts and request.whole else None,
        "runner_up": _runner_up(candidates, chosen),
        "candidates": [{**_candidate(candidate), "load": _load(candidate)} for candidate in _ranked(candidates)],
    }


def summary(kept: Kept) -> Mapping[str, object]:
    """A decision and what came of it, without the candidates."""
    line, chosen = kept.read()
    return {
        "id": line.id,
        "at": round(kept.at, 3),
        "endpoint": line.path,
        "model": line.model,
        "policy": line.policy,
        "replica": line.replica,
        "engine": line.engine,
        "reason": line.reason,
        "prompt_tokens": kept.prompt_tokens or line.prompt,
        "predicted": {
            "cached_tokens": line.predicted,
            "ttft_ms": None if chosen.prediction is UNPREDICTED else round(chosen.prediction.ttft * _MS, 3),
        },
        "runner_up": _runner_up(kept.candidates, chosen),
        "outcome": {
            "status": line.status,
            "ending": line.outcome,
            "prompt_tokens": line.prompt,
            "cached_tokens": line.cached,
            "ttft_ms": None if line.ttft is None else round(line.ttft * _MS, 3),
            "duration_ms": round(line.duration * _MS, 3),
        },
    }


def told(kept: Kept) -> Mapping[str, object]:
    """A decision with its candidates, best first, as it was when it was made. among: how many there were."""
    candidates = [_candidate(candidate) for candidate in _ranked(kept.candidates)]
    return {**summary(kept), "among": kept.among, "candidates": candidates}


def _ranked(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    return sorted(candidates, key=lambda candidate: candidate.prediction.cost)


def _runner_up(candidates: Sequence[Candidate], chosen: Candidate) -> Mapping[str, object] | None:
    """The best of the others, and how much more it would have cost; less than nothing where cost did not decide."""
    others = [candidate for candidate in candidates if candidate.engine != chosen.engine]
    if not others or chosen.prediction is UNPREDICTED:
        return None
    best = min(others, key=lambda candidate: candidate.prediction.cost)
    margin = best.prediction.cost - chosen.prediction.cost
    return {"replica": best.engine.replica, "engine": best.engine.rank, "margin_ms": round(margin * _MS, 3)}


def _candidate(candidate: Candidate) -> Mapping[str, object]:
    prediction = candidate.prediction
    return {
        "replica": candidate.engine.replica,
        "engine": candidate.engine.rank,
        "tokens": {
            "l0": candidate.l0,
            "l1": candidate.l1 - candidate.l0,
            "l2": candidate.l2,
            "prefill": candidate.prompt - candidate.held,
        },
        "predicted_ms": {}
        if prediction is UNPREDICTED
        else {
            "ttft": round(prediction.ttft * _MS, 3),
            "cost": round(prediction.cost * _MS, 3),
            **{term: round(value * _MS, 3) for term, value in prediction._asdict().items()},
        },
    }


def _load(candidate: Candidate) -> Mapping[str, object]:
    load = candidate.load
    return {
        "in_flight": load.in_flight,
        "pending": load.pending,
        "pending_tokens": load.pending_tokens,
        "running": load.report.running,
        "waiting": load.report.waiting,
        "kv_usage": load.report.kv_usage,
    }
