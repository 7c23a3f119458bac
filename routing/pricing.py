"""What a request finds at each engine, and what it costs there: the candidates of a decision.

Runs once for each engine and request, so what all engines have in common is worked out before the loop over them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from routing.cost import NOTHING_AT_STAKE, Stake, made, predict
from routing.decision import Candidate, Matched, Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Engine
from routing.fresh import FreshRoutes
from routing.shared import NOTHING_SHARED, SharedPrefix
from routing.stakes import Placement, Stakes
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch

Matches = Sequence[Mapping[EngineId, PrefixMatch]]
"""For each prompt of a request, what each engine holds of it; empty where the prompts are not matched."""

NOTHING_HELD = PrefixMatch(0, 0)


_Found = tuple[int, int, int, float, int]
"""Of a request at one engine: its tokens in GPU memory, and in GPU or host memory; those beyond from shared storage and
the seconds that these take; of the ones in GPU memory, those that other gateways tell of.

A plain tuple, as one is made of every engine for every decision.
"""
_NOTHING_FOUND: _Found = (0, 0, 0, 0.0, 0)


class _View(NamedTuple):
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
        profiles = [self._fit.profile(engine.id) for engine in engines]
        found: Sequence[_Found] = [_NOTHING_FOUND] * len(engines)
        stakes: Sequence[Stake] = [NOTHING_AT_STAKE] * len(engines)
        if matches:
            found, placements = self._find(request.prompts, matches, shared, engines, now)
            stakes = self._stakes.of(engines, profiles, placements, now)
        candidates = []
        for engine, profile, (l0, l1, l2, loading_l2, likely), stake in zip(
            engines, profiles, found, stakes, strict=True
        ):
            load = engine.load
            prediction = predict(
                profile, load, l0, l1, tokens, waiting_prompt, now, l2, loading_l2, stake, engine.capacity
            )
            candidates.append(made(Candidate, (engine.id, load, l0, l1, tokens, prediction, l2, likely)))
        return candidates

    def _view(
        self, prompts: Sequence[Prompt], matches: Matches, shared: Sequence[SharedPrefix], namespace: Namespace
    ) -> tuple[Sequence[_View], int]:
        """Returns the prompts, and how many blocks they have together."""
        view = []
        stored = shared or [NOTHING_SHARED] * len(matches)
        for prompt, match, in_storage in zip(prompts, matches, stored, strict=True):
            blocks = prompt.chains.get(namespace, ())
            reusable = prompt.reusable
            continued = self._stakes.continued(blocks)
            repeated = prompt.repeated.get(namespace, 0)
            most = reusable // namespace.block_size
            view.append(_View(blocks, match, reusable, most, continued, repeated, in_storage))
        return view, sum(len(prompt.blocks) for prompt in view)

    def _find(
        self,
        prompts: Sequence[Prompt],
        matches: Matches,
        shared: Sequence[SharedPrefix],
        engines: Sequence[Engine],
        now: float,
    ) -> tuple[Sequence[_Found], Sequence[Placement]]:
        """What the request finds at each engine, and what it is there, all prompts together."""
        credited, told_of = self._fresh.credited, self._fresh.told_of
        views: dict[Namespace, tuple[Sequence[_View], int]] = {}
        namespace = None
        found, placements = [], []
        for engine in engines:
            id = engine.id
            if namespace != engine.namespace:  # mostly it is the one of the engine before
                namespace = engine.namespace
                size = namespace.block_size
                if namespace not in views:
                    views[namespace] = self._view(prompts, matches, shared, namespace)
                view, all_blocks = views[namespace]
            l0 = l1 = l2 = likely = new_blocks = left = 0
            loading_l2 = 0.0
            for blocks, match, reusable, most, continued, repeated, in_storage in view:
                in_gpu, in_any = match.get(id, NOTHING_HELD)
                if engine.windowed:
                    if id in credited:
                        in_gpu = self._fresh.extend_to_an_end(id, blocks[:most], in_gpu, now)
                else:
                    if id in credited:
                        in_gpu = self._fresh.extend(id, blocks, in_gpu, now)
                    if id in told_of:
                        surely, in_gpu = in_gpu, self._fresh.extend_by_hearsay(id, blocks, in_gpu, now)
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
                if in_storage.tokens:
                    beyond = in_storage.beyond(gpu, host, reusable)
                    l2 += beyond
                    loading_l2 += in_storage.load(host, beyond)
                new_blocks += len(blocks) - in_gpu
                if in_any < continued:
                    left += continued
            found.append((l0, l1, l2, loading_l2, likely))
            placements.append((all_blocks, new_blocks, left))
        return found, placements


def matched(engine: Engine, prompts: Sequence[Prompt], matches: Matches) -> Matched | None:
    """What the index said of the request at this engine, where its answer can tell whether that is so."""
    if len(prompts) != 1 or not prompts[0].whole or engine.id not in matches[0]:
        return None
    size = engine.namespace.block_size
    blocks = prompts[0].chains.get(engine.namespace, ())
    in_gpu = min(matches[0][engine.id].l0, len(blocks), prompts[0].reusable // size)
    return Matched(blocks, size, max(0, in_gpu - engine.recomputed_blocks))
