"""Requests that are over, as values."""

from asgi_side import posted

from gateway.relay.inbound import Inbound
from gateway.relay.record import Ended, Record
from gateway.relay.response import Ending, Outcome
from gateway.relay.usage import Usage
from routing.cost import Prediction
from routing.decision import Candidate, Decision
from routing.load import EngineLoad
from routing.types import EngineId, ReplicaId


def candidate(name: str, l0: int = 0, prompt: int = 100, prefill: float = 0.01, queue: float = 0.0) -> Candidate:
    prediction = Prediction(queue=queue, decode=0.0, load=0.0, prefill=prefill, room=0.0)
    return Candidate(EngineId(ReplicaId(name), 0), EngineLoad(), l0, l0, prompt, prediction)


def decision(*candidates: Candidate, predicted: int | None = None) -> Decision:
    """For the first of the candidates."""
    chosen = candidates[0]
    return Decision(
        engine=chosen.engine,
        policy="kv-aware",
        reason="first token soonest",
        prompt_tokens=chosen.prompt,
        held_tokens=chosen.l1,
        cached_tokens=chosen.l1 if predicted is None else predicted,
        prediction=chosen.prediction,
        candidates=candidates,
    )


def ended(
    *,
    id: str = "a",
    body: bytes = b"{}",
    chosen: Decision | None = None,
    usage: Usage | None = None,
    status: int = 200,
    how: str = "complete",
    ttft: float | None = 0.1,
    tenant: str = "",
) -> Ended:
    """A request that ended so."""
    inbound = Inbound(posted("/v1/chat/completions"), id, "m", body, hide_usage=False, arrived=1.0, tenant=tenant)
    outcome = Outcome(Ending.COMPLETE, status, 10, ttft, usage, failed=False, done=True)
    return Ended(inbound, record(inbound, chosen or decision(candidate("one")), outcome, how, ttft))


def record(
    inbound: Inbound, chosen: Decision, outcome: Outcome, how: str = "complete", ttft: float | None = 0.1
) -> Record:
    """Of a request that took half a second and ended 17 s after the epoch."""
    return Record(
        inbound.id, 17.0, inbound.client.path, inbound.model, inbound.tenant, inbound.single, chosen, outcome.status,
        how, outcome.usage, outcome.done, ttft, 0.5, 0.0, None, len(chosen.candidates),
    )  # fmt: skip
