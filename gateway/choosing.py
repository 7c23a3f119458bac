"""Request body -> prompt -> blocks -> matches -> decision: where the gateway asks the routing core."""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from random import Random
from typing import Protocol

import msgspec

from gateway.api.parse import document
from gateway.chains import Chains
from gateway.config import Config
from gateway.l2.host_memory import add_host_memory
from gateway.l2.names import Tags
from gateway.l2.prefetch import Prefetcher
from gateway.l2.storage import SharedStorage, Stored
from gateway.prompt.incremental import TooMuch
from gateway.prompt.library import Library
from gateway.prompt.remote import RemoteReader
from gateway.reading import Reading, chained, read
from gateway.shadow import Shadow
from routing.blocks import root_hash
from routing.decision import Candidate, Decision, Prompt, RouteRequest
from routing.fleet import Fleet
from routing.flights import Flights, unstored_start
from routing.history import RouteHistory
from routing.index import PrefixIndex
from routing.policies import POLICIES, Policy, PrefixSource, policy_named
from routing.pricing import Matches, matched
from routing.router import Router
from routing.shared import SharedPrefix
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, ReplicaId

_TALKS = frozenset({"/v1/chat/completions", "/v1/messages", "/v1/responses"})
_AT_ONCE_BYTES = 131_072
"""Bodies up to this size are read on the event loop if little of them is new: a thread would have to wait for the
interpreter's lock, which a busy loop gives away late. Larger ones may hold so many ids that it takes long."""
_AT_ONCE_BYTES_OF_TALKS = 524_288
"""the same where a body holds text, of which a pass takes a millisecond or two"""


class Found(msgspec.Struct, frozen=True):
    """What is held and stored of a request's prompts."""

    matches: Matches = ()
    shared: Sequence[SharedPrefix] = ()
    """what lies in shared storage of each prompt; empty where that was not asked"""
    tokens: Sequence[Sequence[int]] = ()
    salt: str | None = None


class SharedIndex(Protocol):
    """An index that several gateways have in common; it takes a way to ask it."""

    async def match(
        self, chains: Sequence[tuple[Namespace, Sequence[BlockHash]]]
    ) -> Sequence[Mapping[EngineId, PrefixMatch]]:
        """How long a prefix of each chain each engine holds. Never fails."""
        ...


class Chooser:
    """Chooses a replica for each request, by the policy that is set for its model."""

    def __init__(
        self,
        config: Config,
        fleet: Fleet,
        index: PrefixIndex,
        history: RouteHistory,
        router: Router,
        library: Library,
        remote: RemoteReader,
        executor: Executor,
        random: Random,
        storage: SharedStorage | None = None,
        flights: Flights | None = None,
        prefetcher: Prefetcher | None = None,
        shared_index: SharedIndex | None = None,
        shadow: Shadow | None = None,
        tell: Callable[[Decision], None] | None = None,
        warm_up: Callable[[str | None, Decision, Sequence[int], str | None], None] | None = None,
    ) -> None:
        """tell: lets other gateways know of a decision. warm_up: `WarmUp.note`."""
        self._fleet = fleet
        self._index = index
        self._history = history
        self._router = router
        self._library = library
        self._remote = remote
        self._executor = executor
        self._random = random
        self._storage = storage
        self._flights = flights
        self._prefetcher = prefetcher
        self._shared_index = shared_index
        self._shadow = shadow
        self._tell = tell
        self._warm_up = warm_up
        self._chains = Chains()
        self._miscounted: set[str] = set()
        self._secret = config.hash_secret.encode()
        self._policies: dict[str, Policy] = {name: policy(random) for name, policy in POLICIES.items()}
        self.reload(config)

    def reload(self, config: Config) -> None:
        """Take in changed policies. Requests that were decided before are not touched."""
        self._config = config

    def sends_token_ids(self, model: str) -> bool:
        """Whether the engine gets the ids along: it is set so, and they have been right so far."""
        return model not in self._miscounted and self._config.sends_token_ids(model)

    def miscounted(self, model: str) -> bool:
        """The engine counted another number of tokens: its ids are not ours. Returns whether that is news."""
        news = model not in self._miscounted
        self._miscounted.add(model)
        return news

    def policy(self, model: str | None, wanted: str | None = None) -> Policy:
        """The policy for a model; `wanted`, a request's own wish, where that is allowed.

        Raises ValueError for an unknown wish.
        """
        if wanted is not None and self._config.allow_policy_header:
            return self._policies[policy_named(wanted).name]
        return self._policies[self._config.policy_for(model)]

    @property
    def least_loaded(self) -> Policy:
        """For what is routed without a look at the prompt."""
        return self._policies["least-loaded"]

    async def request(self, endpoint: str, model: str | None, raw: bytes) -> Reading:
        """Read the prompt of a body, in a thread where much of it is new. Raises BadRequest."""
        serving = self._fleet.serving(model) if model is not None else ()
        if model is None or not serving:
            return Reading(RouteRequest(model))
        replica = self._random.choice(serving).replica
        root = partial(root_hash, self._secret, adapter=model if replica.is_adapter(model) else None)
        chain = partial(chained, model, root, self._fleet.namespaces(model), self._chains)
        reader = self._library.reader(replica)
        if reader is None:
            return chain(await self._remote.read(replica.url, endpoint, document(raw)))
        if len(raw) <= (_AT_ONCE_BYTES_OF_TALKS if endpoint in _TALKS else _AT_ONCE_BYTES):
            with suppress(TooMuch):
                return read(reader.read_at_once, endpoint, raw, chain)
        reading = partial(read, reader.read, endpoint, raw, chain)
        return await asyncio.get_running_loop().run_in_executor(self._executor, reading)

    def reads_for(self, policy: Policy) -> Policy:
        """The policy that prompts are read and looked up for: its shadow's where it needs no prompt itself."""
        return self._shadow.policy if self._shadow and policy.source is PrefixSource.NONE else policy

    async def look_up(self, reading: Reading, policy: Policy, tags: Tags = ()) -> Found:
        """What each engine holds of the prompts, from where the policy looks; empty where it does not look.

        The one step between reading a prompt and deciding that may wait; in memory it does not.
        tags: LMCache's, from the request.
        """
        request = reading.route
        policy = self.reads_for(policy)
        if policy.source is PrefixSource.NONE or not request.prompts:
            return Found()
        stored = Stored()
        if self._storage is not None and policy.source is PrefixSource.EVENTS:
            stored = await self._storage.look_up(request, reading.tokens, reading.salt, tags)
        asked: Matches | None = None
        if policy.source is PrefixSource.EVENTS and self._shared_index is not None:
            asked = await self._ask(self._shared_index, request.prompts)
        matches = []
        for number, prompt in enumerate(request.prompts):
            found = dict(asked[number]) if asked else {}
            for space, chain in prompt.chains.items():
                if policy.source is PrefixSource.EVENTS and asked is None:
                    found.update(self._index.match(chain, prompt.reusable // space.block_size))
                if policy.source is PrefixSource.HISTORY or self._fleet.unjudged:
                    found.update(self._remembered(chain, policy))
            matches.append(found)
        add_host_memory(self._fleet, request.prompts, matches, stored.in_memory)
        return Found(matches, stored.prefixes, reading.tokens, reading.salt)

    async def _ask(self, index: SharedIndex, prompts: Sequence[Prompt]) -> Matches:
        answers = iter(await index.match([chain for prompt in prompts for chain in prompt.chains.items()]))
        return [{id: match for _ in prompt.chains for id, match in next(answers).items()} for prompt in prompts]

    def decide(
        self,
        request: RouteRequest,
        found: Found,
        policy: Policy,
        now: float,
        excluding: Set[ReplicaId] = frozenset(),
    ) -> Decision:
        """Choose. found: from `look_up`. now: seconds of a monotonic clock. Raises RoutingError."""
        if not found.matches and self.reads_for(policy).source is PrefixSource.NONE:
            decision = self._router.route_by_load(request, policy, excluding)
        else:
            decision = self._decide_by_prefix(request, found, policy, now, excluding)
        if self._shadow:
            self._shadow.judge(request.model or "", decision, request.session)
        return decision

    def _decide_by_prefix(
        self, request: RouteRequest, found: Found, policy: Policy, now: float, excluding: Set[ReplicaId]
    ) -> Decision:
        matches, shared, tokens = found.matches, found.shared, found.tokens
        start = unstored_start(request, matches, shared) if self._flights else None
        if self._flights and request.replica is None:
            request = request._replace(replica=self._flights.follow(start, now))
        decision = self._router.route(request, matches, policy, now, excluding, shared)
        if self._tell:
            self._tell(decision)
        if self._warm_up and len(tokens) == 1:
            self._warm_up(request.model, decision, tokens[0], found.salt)
        if self._flights:
            self._flights.begin(start, decision.engine, now)
        if self._prefetcher is not None and decision.l2_tokens and len(tokens) == 1:
            self._prefetcher.consider(request.model or "", decision, tokens[0][: shared[0].tokens], found.salt)
        engine = self._fleet.get(decision.engine)
        assert engine is not None
        by_events = policy.source is PrefixSource.EVENTS and engine.id not in self._fleet.unjudged
        if matches and (not by_events or self._shared_index is not None):
            # With a shared index always: should it be out of reach, what was sent is what is known.
            for prompt in request.prompts:
                self._history.record(decision.engine, prompt.chains.get(engine.namespace, ()), now)
        told = matched(engine, request.prompts, matches) if matches and by_events else None
        return decision if told is None else decision._replace(matched=told)

    def _remembered(self, chain: Sequence[BlockHash], policy: Policy) -> Mapping[EngineId, PrefixMatch]:
        """What was sent where; to a policy that goes by events, only of engines whose events don't tell enough."""
        remembered = self._history.match(chain)
        if policy.source is PrefixSource.HISTORY:
            return remembered
        return {id: match for id, match in remembered.items() if id in self._fleet.unjudged}

    async def explain(
        self, reading: Reading, policy: Policy, now: float, tags: Tags = ()
    ) -> tuple[list[Candidate], Candidate, str]:
        """Every candidate, the one that would be chosen and why. Changes nothing. Raises RoutingError."""
        source = policy if policy.source is not PrefixSource.NONE else self._policies["kv-aware"]
        found = await self.look_up(reading, source, tags)
        candidates = self._router.candidates(reading.route, found.matches, now, shared=found.shared)
        # A policy of its own, so that asking does not take somebody's turn.
        chosen, reason = type(policy)(self._random).choose(candidates, reading.route.session)
        return list(candidates), chosen, reason
