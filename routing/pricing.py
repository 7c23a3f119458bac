"""What a request finds at each engine, and what it costs there: the candidates of a decision.

Runs once for each engine and request, so what all engines have in common is worked out before the loop over them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from routing.cost import predict
from routing.decision import Candidate, Matched, Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Engine
from routing.fresh import FreshRoutes
from routing.shared import NOTHING_SHARED, SharedPrefix
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch

Matches = Sequence[Mapping[EngineId, PrefixMatch]]
"""For each prompt of a request, what each engine holds of it; empty where the prompts are not matched."""

NOTHING_HELD = PrefixMatch(0, 0)


class _Asked(NamedTuple):
    """A prompt as all engines of one namespace see it."""

    blocks: Sequence[BlockHash]
    match: Mapping[EngineId, PrefixMatch]
    reusable: int
    """of its tokens, those that a cache can spare"""
    most: int
    """blocks that lie in them"""
    continued: int
    """leading blocks that are a whole earlier prompt, which this one alone goes on from"""
    repeated: int
    """leading blocks that a prompt before it in the same request begins with"""
    shared: SharedPrefix


class Pricing:
    """Makes candidates of engines.

    fresh: credits to engines just chosen. fit: how fast each engine is. stakes: what others have at stake.
    """

    def __init__(self, fresh: FreshRoutes, fit: SpeedFit, stakes: Stakes) -> None:
        self._fresh = fresh
        self._fit = fit
        self._stakes = stakes

    def candidates(
        self,
        request: RouteRequest,
        matches: Matches,
        shared: Sequence[SharedPrefix],
        engines: Sequence[Engine],
        waiting_prompt: float,
        now: float,
    ) -> Sequence[Candidate]:
        """The engines, in their order, with what the request finds and costs there.

        shared: for each prompt what lies in shared storage; empty where that was not asked. engines: at least one.
        waiting_prompt: as for `predict`.
        """
        tokens = request.tokens
        if not matches:
            return [self._unmatched(engine, tokens, waiting_prompt, now) for engine in engines]
        standing = self._stakes.standing(engines, now)
        views: dict[Namespace, tuple[Sequence[_Asked], int]] = {}
        candidates = []
        for engine, cache, share in zip(engines, standing.caches, standing.shares, strict=True):
            seen = views.get(engine.namespace)
            if seen is None:
                seen = views[engine.namespace] = self._view(request.prompts, matches, shared, engine.namespace)
            view, blocks = seen
            l0, l1, l2, loading_l2, likely, new_blocks, left = self._find(engine, view, now)
            profile = self._fit.profile(engine.id)
            stake = self._stakes.of(engine, profile, blocks, new_blocks, left, cache, share, standing)
            prediction = predict(
                profile, engine.load, l0, l1, tokens, waiting_prompt, now, l2, loading_l2, stake, engine.capacity
            )
            candidates.append(Candidate(engine.id, engine.load, l0, l1, tokens, prediction, l2, likely))
        return candidates

    def _unmatched(self, engine: Engine, tokens: int, waiting_prompt: float, now: float) -> Candidate:
        profile = self._fit.profile(engine.id)
        prediction = predict(profile, engine.load, 0, 0, tokens, waiting_prompt, now, capacity=engine.capacity)
        return Candidate(engine.id, engine.load, 0, 0, tokens, prediction)

    def _view(
        self, prompts: Sequence[Prompt], matches: Matches, shared: Sequence[SharedPrefix], namespace: Namespace
    ) -> tuple[Sequence[_Asked], int]:
        """Returns the prompts, and how many blocks they have together."""
        view = []
        stored = shared or [NOTHING_SHARED] * len(matches)
        for prompt, match, in_storage in zip(prompts, matches, stored, strict=True):
            blocks = prompt.chains.get(namespace, ())
            reusable = prompt.reusable
            continued = self._stakes.continued(blocks)
            repeated = prompt.repeated.get(namespace, 0)
            most = reusable // namespace.block_size
            view.append(_Asked(blocks, match, reusable, most, continued, repeated, in_storage))
        return view, sum(len(asked.blocks) for asked in view)

    def _find(self, engine: Engine, view: Sequence[_Asked], now: float) -> tuple[int, int, int, float, int, int, int]:
        """What the request finds at one engine, all prompts together.

        Returns its tokens in GPU memory, and in GPU or host memory; those beyond from shared storage, and the seconds
        that these take; of the ones in GPU memory, those that other gateways tell of; its blocks that are new there;
        and the blocks of earlier turns that this engine does not hold as a whole.
        """
        id, size = engine.id, engine.namespace.block_size
        credited = id in self._fresh
        l0 = l1 = l2 = likely = new_blocks = left = 0
        loading_l2 = 0.0
        for blocks, match, reusable, most, continued, repeated, shared in view:
            in_gpu, in_any = match.get(id, NOTHING_HELD)
            if engine.windowed:
                if credited:
                    in_gpu = self._fresh.extend_to_an_end(id, blocks[:most], in_gpu, now)
            else:
                if credited:
                    surely = in_gpu = self._fresh.extend(id, blocks, in_gpu, now)
                    in_gpu = self._fresh.extend_by_hearsay(id, blocks, in_gpu, now)
                    likely += (in_gpu - surely) * size
                if in_gpu < repeated:
                    in_gpu = repeated
            if in_any < in_gpu:
                in_any = in_gpu
            gpu = host = 0
            if in_any:
                again = engine.recomputed_blocks
                gpu = (in_gpu if in_gpu < most else most) - again
                gpu = gpu * size if gpu > 0 else 0
                host = (in_any if in_any < most else most) - again
                host = host * size if host > 0 else 0
                l0 += gpu
                l1 += host
            if shared.tokens:
                beyond = shared.beyond(gpu, host, reusable)
                l2 += beyond
                loading_l2 += shared.load(host, beyond)
            new_blocks += len(blocks) - in_gpu
            if in_any < continued:
                left += continued
        return l0, l1, l2, loading_l2, likely, new_blocks, left


def matched(engine: Engine, prompts: Sequence[Prompt], matches: Matches) -> Matched | None:
    """What the index said of the request at this engine, where its answer can tell whether that is so."""
    if len(prompts) != 1 or not prompts[0].whole or engine.id not in matches[0]:
        return None
    size = engine.namespace.block_size
    blocks = prompts[0].chains.get(engine.namespace, ())
    in_gpu = min(matches[0][engine.id].l0, len(blocks), prompts[0].reusable // size)
    return Matched(blocks, size, max(0, in_gpu - engine.recomputed_blocks))
