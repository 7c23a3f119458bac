"""Who is there: replicas, their engines, and the leases that count what is in flight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from routing.line import Prefill
from routing.load import EngineLoad
from routing.types import EngineId, Namespace, ReplicaId

DEFAULT_BLOCK_SIZE = 16
"""vLLM's, until an engine says otherwise."""


class Task(StrEnum):
    """What a model that writes no answers makes of a text."""

    EMBED = "embed"
    """one vector of each text"""
    CLASSIFY = "classify"
    """a judgement of a text, or of two together"""
    TOKENS = "tokens"
    """something for each token"""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One name that a replica answers to."""

    id: str
    root: str = ""
    """the path or hub name given to vLLM: where tokenizer and template are"""
    parent: str | None = None
    """the base model, for a LoRA adapter"""
    max_model_len: int | None = None
    """longest prompt plus answer, in tokens"""
    created: int = 0
    """seconds since the epoch"""
    owned_by: str = "vllm"


@dataclass(frozen=True, slots=True)
class Replica:
    """One vLLM server, as its own endpoints describe it."""

    id: ReplicaId
    url: str
    """scheme and authority, without a trailing slash"""
    cards: tuple[ModelCard, ...]
    """at least one: aliases and LoRA adapters too, in the replica's order"""
    ranks: int = 1
    block_size: int = DEFAULT_BLOCK_SIZE
    capacity_blocks: int | None = None
    """blocks in the GPU memory of each engine, None where it does not tell"""
    recomputed_blocks: int = 0
    """blocks at the end of a hit that an engine computes again: 1 under EAGLE and MTP"""
    host_tokens: int = 0
    """what LMCache inside each engine keeps in host memory (`ledger.Ledger`)"""
    weight: float = 1.0
    """how much it takes, beside others"""
    task: Task | None = None
    """None for models that write answers, and where it does not tell"""

    @property
    def base(self) -> ModelCard:
        """The first name that is not an adapter's: the canonical one."""
        return next((card for card in self.cards if card.parent is None), self.cards[0])

    def is_adapter(self, model: str) -> bool:
        """Whether this name is a LoRA adapter's."""
        return any(card.id == model and card.parent is not None for card in self.cards)


@dataclass(slots=True)
class Engine:
    """One data-parallel rank of a member of the fleet."""

    id: EngineId
    replica: Replica
    load: EngineLoad = field(default_factory=EngineLoad)
    told_block_size: int | None = None
    """tokens per block by the engine's own events, which are right where the replica's description is not"""
    looks_ahead: bool = False
    """by its events it drafts with EAGLE or MTP"""
    windowed: bool = False
    """by its events some layers look back a window only: it goes on where a prompt ended, not in its middle"""

    namespace: Namespace = field(init=False)
    """what its blocks' names depend on"""
    capacity: int = field(init=False)
    """tokens that its KV cache holds, 0 where it does not tell"""

    def __post_init__(self) -> None:
        self.namespace = Namespace(self.replica.base.id, self.told_block_size or self.replica.block_size)
        self.capacity = (self.replica.capacity_blocks or 0) * self.namespace.block_size

    @property
    def recomputed_blocks(self) -> int:
        """Blocks at the end of a hit that it computes again."""
        return self.replica.recomputed_blocks or int(self.looks_ahead)

    def learn_block_size(self, block_size: int) -> None:
        """What the events say holds from now on."""
        self.told_block_size = block_size
        self.__post_init__()


class Lease:
    """A request's place in its engine's load, given back once however the request ends.

    new_tokens: those of its prompt that the engine has to prefill. now: seconds of a monotonic clock.
    """

    __slots__ = ("_began", "_load", "_new_tokens", "_pairs", "_place", "_prompt_tokens", "_state")

    def __init__(self, load: EngineLoad, prompt_tokens: int, new_tokens: int, now: float) -> None:
        self._load = load
        self._prompt_tokens = prompt_tokens
        self._new_tokens = new_tokens
        self._pairs = new_tokens * (2 * prompt_tokens - new_tokens) // 2
        self._state = "pending"
        self._began = 0.0
        load.begun += 1
        load.in_flight += 1
        load.pending += 1
        load.pending_tokens += new_tokens
        load.pending_pairs += self._pairs
        self._place = load.line.join(Prefill(new_tokens, self._pairs), now)

    def first_token(self, now: float) -> None:
        """The prompt is prefilled; from now on the request only decodes. Only the first call counts."""
        if self._state == "pending":
            self._state = "decoding"
            self._began = now
            self._load.pending -= 1
            self._load.pending_tokens -= self._new_tokens
            self._load.pending_pairs -= self._pairs
            self._load.line.leave(self._place, now)
            self._load.context_tokens += self._prompt_tokens

    def release(self, now: float) -> None:
        """The request ended. Only the first call counts."""
        if self._state == "released":
            return
        if self._state == "decoding":
            self._load.ended(now - self._began)
        self.first_token(now)
        self._state = "released"
        self._load.context_tokens -= self._prompt_tokens
        self._load.in_flight -= 1


class Fleet:
    """The replicas that may be sent to. A replica that is down or draining is not in it."""

    def __init__(self) -> None:
        self._engines: dict[EngineId, Engine] = {}
        self._serving: dict[str, list[Engine]] = {}
        self._namespaces: dict[str, frozenset[Namespace]] = {}
        self.unjudged: set[EngineId] = set()
        """engines whose events don't tell how much of a prompt they would find"""

    def __iter__(self) -> Iterator[Engine]:
        return iter(self._engines.values())

    def __len__(self) -> int:
        return len(self._engines)

    def join(self, replica: Replica) -> Sequence[Engine]:
        """Take the replica in, or take in what changed about it: loads go on, and its place in the order stays.

        Returns its engines.
        """
        joined = []
        for rank in range(replica.ranks):
            id = EngineId(replica.id, rank)
            before = self._engines.get(id)
            engine = Engine(id, replica)
            if before:
                engine = Engine(id, replica, before.load, before.told_block_size, before.looks_ahead, before.windowed)
            engine.load.weight = replica.weight
            self._engines[id] = engine
            joined.append(engine)
        for id in self._ids(replica.id)[replica.ranks :]:
            del self._engines[id]
        self._relist()
        return joined

    def leave(self, replica: ReplicaId) -> Sequence[EngineId]:
        """The replica is gone. Returns the ids of the engines that went with it; leases on them stay valid."""
        gone = self._ids(replica)
        for id in gone:
            del self._engines[id]
            self.unjudged.discard(id)
        self._relist()
        return gone

    def learn_block_size(self, engine: EngineId, block_size: int) -> None:
        """What the engine's events say holds from now on. Ignores engines that have left."""
        known = self._engines.get(engine)
        if known:
            known.learn_block_size(block_size)
            self._relist()

    def get(self, engine: EngineId) -> Engine | None:
        """The engine, if it is a member."""
        return self._engines.get(engine)

    def serving(self, model: str | None) -> Sequence[Engine]:
        """The engines that answer to this model's name; all engines for None."""
        return list(self._engines.values()) if model is None else self._serving.get(model, ())

    def only_model(self) -> str | None:
        """The base model, if all members serve the same: what a request that names none is for."""
        models = {engine.namespace.model for engine in self._engines.values()}
        return models.pop() if len(models) == 1 else None

    def namespaces(self, model: str) -> frozenset[Namespace]:
        """The namespaces among the engines that serve this model: one, unless block sizes differ."""
        return self._namespaces.get(model, frozenset())

    def _ids(self, replica: ReplicaId) -> list[EngineId]:
        return [id for id in self._engines if id.replica == replica]

    def _relist(self) -> None:
        self._serving = {}
        for engine in self._engines.values():
            for card in engine.replica.cards:
                self._serving.setdefault(card.id, []).append(engine)
        self._namespaces = {
            model: frozenset(engine.namespace for engine in engines) for model, engines in self._serving.items()
        }
