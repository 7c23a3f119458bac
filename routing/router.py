"""Eligible engines + what they hold + how busy they are -> candidates -> policy -> decision."""

from collections.abc import Sequence, Set

from routing.cost import UNPREDICTED, predict
from routing.decision import Candidate, Decision, Prompt, RouteRequest
from routing.errors import NoReplicaAvailable, UnknownModel
from routing.fit import SpeedFit
from routing.fleet import Engine, Fleet
from routing.fresh import FreshRoutes
from routing.policies import Policy
from routing.pricing import NOTHING_HELD, Matches, Pricing
from routing.seen import Seen
from routing.shared import SharedPrefix
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, ReplicaId

_SEEN_BLOCKS = 2_000_000
"""of recent prompts, to know what could be saved: about 100 MB at the most"""


class Router:
    """Decides. What is known of caches comes in as `Matches`; who looked it up and where is the caller's business.

    fresh: credits to engines just chosen; every decision adds to them. Tell `began` or `withdraw` what came of it.
    fit: how fast each engine is.
    stakes: what others have at stake; every decision is recorded there.
    """

    def __init__(self, fleet: Fleet, fresh: FreshRoutes, fit: SpeedFit, stakes: Stakes) -> None:
        self._fleet = fleet
        self._fresh = fresh
        self._fit = fit
        self._stakes = stakes
        self._pricing = Pricing(fresh, fit, stakes)
        self._seen = Seen(_SEEN_BLOCKS)
        self._mean_new_tokens = 0.0
        self._by_load: dict[str | None, tuple[Sequence[Engine], Sequence[Candidate]]] = {}

    def candidates(
        self,
        request: RouteRequest,
        matches: Matches,
        now: float,
        excluding: Set[ReplicaId] = frozenset(),
        shared: Sequence[SharedPrefix] = (),
    ) -> Sequence[Candidate]:
        """Every engine that may take the request, with what it costs there.

        shared: for each prompt what lies in shared storage; empty where that was not asked.
        Raises UnknownModel, NoReplicaAvailable.
        """
        engines = self._serving(request.model)
        if excluding:
            engines = [engine for engine in engines if engine.id.replica not in excluding]
        if not engines:
            raise NoReplicaAvailable(request.model)
        if request.replica is not None:
            engines = [engine for engine in engines if engine.id.replica == request.replica] or engines
        return self._pricing.candidates(request, matches, shared, engines, self._mean_new_tokens, now)

    def route(
        self,
        request: RouteRequest,
        matches: Matches,
        policy: Policy,
        now: float,
        excluding: Set[ReplicaId] = frozenset(),
        shared: Sequence[SharedPrefix] = (),
    ) -> Decision:
        """Choose an engine and credit it with the prompt's blocks. shared: as for `candidates`.

        Raises UnknownModel, NoReplicaAvailable.
        """
        candidates = self.candidates(request, matches, now, excluding, shared)
        chosen, reason = policy.choose(candidates, request.session)
        reusable = self._reusable(chosen.engine, request.prompts) if matches else 0
        credited, unheld = self._credit(chosen.engine, request.prompts, matches, now) if matches else ((), ())
        decision = Decision(
            engine=chosen.engine,
            policy=policy.name,
            reason=reason,
            prompt_tokens=chosen.prompt,
            held_tokens=chosen.held,
            cached_tokens=chosen.held if matches and request.whole and not chosen.likely else None,
            prediction=chosen.prediction,
            candidates=candidates,
            l2_tokens=chosen.l2,
            factor=self._fit.factor(chosen.engine),
            credited=credited,
            unheld=unheld,
            reusable_tokens=reusable,
        )
        if matches:
            self._mean_new_tokens += 0.05 * (decision.new_tokens - self._mean_new_tokens)
        return decision

    def route_by_load(self, request: RouteRequest, policy: Policy, excluding: Set[ReplicaId] = frozenset()) -> Decision:
        """Choose for a policy that looks at nothing but names and loads, so nothing is predicted for it.

        Raises UnknownModel, NoReplicaAvailable.
        """
        serving = self._serving(request.model)
        engines, candidates = self._by_load.get(request.model, ((), ()))
        if engines is not serving:  # the fleet has changed, or its list is new each time
            candidates = [Candidate(engine.id, engine.load, 0, 0, 0, UNPREDICTED) for engine in serving]
            self._by_load[request.model] = serving, candidates
        if excluding:
            candidates = [candidate for candidate in candidates if candidate.engine.replica not in excluding]
        if request.replica is not None:
            candidates = [each for each in candidates if each.engine.replica == request.replica] or candidates
        if not candidates:
            raise NoReplicaAvailable(request.model)
        chosen, reason = policy.choose(candidates, request.session)
        return Decision(chosen.engine, policy.name, reason, request.tokens, 0, None, UNPREDICTED, candidates)

    def queue(self, engine: Engine, now: float) -> float:
        """Seconds that one more prompt would wait there, as predicted, until its own prefill begins."""
        profile = self._fit.profile(engine.id)
        return predict(profile, engine.load, 0, 0, 0, self._mean_new_tokens, now, capacity=engine.capacity).queue

    def withdraw(self, decision: Decision) -> None:
        """The request got no answer there, so nothing says that its blocks are, or will be, held."""
        for blocks in decision.credited:
            self._fresh.withdraw(decision.engine, blocks)

    def began(self, decision: Decision, now: float) -> None:
        """The request has its first token: what it computed is held, and events tell of it."""
        for blocks in decision.credited:
            self._fresh.began(decision.engine, blocks, now)

    def _serving(self, model: str | None) -> Sequence[Engine]:
        serving = self._fleet.serving(model)
        if not serving and model is not None and len(self._fleet):
            raise UnknownModel(model)
        return serving

    def _reusable(self, id: EngineId, prompts: Sequence[Prompt]) -> int:
        engine = self._fleet.get(id)
        assert engine is not None
        size = engine.namespace.block_size
        seen = (
            (self._seen.prefix(prompt.chains.get(engine.namespace, ())), prompt.reusable // size) for prompt in prompts
        )
        return sum(min(found, most) * size for found, most in seen)

    def _credit(
        self, id: EngineId, prompts: Sequence[Prompt], matches: Matches, now: float
    ) -> tuple[Sequence[Sequence[BlockHash]], Sequence[Sequence[BlockHash]]]:
        """Returns what of each prompt is credited, and its blocks that the engine was not known to hold."""
        engine = self._fleet.get(id)
        assert engine is not None
        credited: list[Sequence[BlockHash]] = []
        unheld: list[Sequence[BlockHash]] = []
        for prompt, match in zip(prompts, matches, strict=True):
            blocks = prompt.chains.get(engine.namespace, ())
            held = match.get(id, NOTHING_HELD).l0
            kept = _kept(engine, prompt, blocks)
            credited.append(kept)
            unheld.append(blocks[held:])
            self._fresh.credit(id, kept)
            self._stakes.record(id, blocks, held, now)
            self._seen.record(blocks)
        return credited, unheld


def _kept(engine: Engine, prompt: Prompt, blocks: Sequence[BlockHash]) -> Sequence[BlockHash]:
    """Those of a prompt's blocks that the engine can go on from once it has computed them."""
    if not engine.windowed:
        return blocks
    # Windows are kept where the same prompt would go on, which is before its last token. Where one with an image would
    # is not known.
    return blocks[: prompt.reusable // engine.namespace.block_size] if prompt.whole else ()
