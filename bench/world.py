"""A fleet of 64 replicas that hold a million blocks, and conversations that nobody has had before."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from random import Random
from time import perf_counter
from typing import Any

from gateway.chains import Chains
from gateway.interpreter import settle
from gateway.prompt.tokenizer import Tokenizer
from routing.changes import Change, Drop, Put
from routing.cost import PROFILES
from routing.decision import Decision, Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.index import PrefixIndex
from routing.policies import POLICIES
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, ReplicaId, Tier

REPLICAS = 64
BLOCKS = 1_000_000
BLOCK_SIZE = 16
SPACE = Namespace("m", BLOCK_SIZE)
_OTHERS = 16
_OTHERS_BLOCKS = 64


class World:
    """The fleet, its index and its router. root: what the replicas name as their model's place."""

    def __init__(self, random: Random, root: str = "") -> None:
        self.random = random
        self.chains = Chains()
        self.index = PrefixIndex()
        self.room = Room(ReuseChance(), 600.0)
        self.fleet = Fleet()
        for number in range(REPLICAS):
            id = ReplicaId(f"10.0.0.{number}:8000")
            self.fleet.join(Replica(id, f"http://{id}", (ModelCard("m", root),), capacity_blocks=BLOCKS // REPLICAS))
            blocks = [BlockHash(random.getrandbits(64)) for _ in range(BLOCKS // REPLICAS)]
            self._tell(EngineId(id, 0), Put(Tier.GPU, blocks))
        fit = SpeedFit(PROFILES["qwen3-32b-h100"])
        self._fresh = FreshRoutes(2.0)
        self.router = Router(self.fleet, self._fresh, fit, Stakes(self.room))
        self.policy = POLICIES["kv-aware"](random)
        self._served: Sequence[BlockHash] = ()
        settle()  # as a gateway does

    def hold(self, blocks: Sequence[BlockHash]) -> None:
        """Every replica holds a prefix of `blocks`, of a length of its own."""
        for engine in self.fleet:
            self._tell(engine.id, Put(Tier.GPU, blocks[: self.random.randrange(len(blocks))]))

    def route_others(self) -> None:
        """Requests with prompts of which nothing is held, neither before nor after."""
        for _ in range(_OTHERS):
            blocks = [BlockHash(self.random.getrandbits(64)) for _ in range(_OTHERS_BLOCKS)]
            request = RouteRequest("m", (Prompt(len(blocks) * BLOCK_SIZE, {SPACE: blocks}),))
            decision = self.router.route(request, [self.index.match(blocks)], self.policy, perf_counter())
            self._begin(decision, blocks)

    def serve(self, decision: Decision, blocks: Sequence[BlockHash]) -> None:
        """The engine that was chosen computes the prompt and is the only one to hold it, until the next is served."""
        for engine in self.fleet:
            self._tell(engine.id, Drop(Tier.GPU, self._served))
            self._tell(engine.id, Drop(Tier.GPU, blocks))
        self._served = blocks
        self._tell(decision.engine, Put(Tier.GPU, blocks))
        self._begin(decision, blocks)

    def _begin(self, decision: Decision, blocks: Sequence[BlockHash]) -> None:
        """The first token has come, and events have spoken of all blocks."""
        self.router.began(decision, perf_counter())
        self._fresh.settle(decision.engine, blocks)

    def _tell(self, engine: EngineId, change: Change) -> None:
        self.index.apply(engine, [change])
        self.room.apply(engine, [change], perf_counter())


@cache
def vocabulary() -> tuple[Sequence[str], Sequence[float]]:
    """20,000 made-up words, and how often each is used up to that one: the n-th half as often as one at n/2 (Zipf)."""
    random = Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(random.choices(letters, k=random.randint(2, 9))) for _ in range(20_000)]
    return words, list(accumulate(1 / rank for rank in range(1, len(words) + 1)))


def prose(random: Random, words: int) -> str:
    """A text that nobody has written before, of words that everybody uses."""
    known, frequencies = vocabulary()
    return " ".join(random.choices(known, cum_weights=frequencies, k=words))


def conversation(random: Random, tokenizer: Tokenizer, tokens: int, turns: int | None = None) -> Mapping[str, Any]:
    """A chat whose prompt has about `tokens` tokens, the last message the user's.

    turns: questions in it; as many as turns of some hundred words give where None.
    """
    per_word = len(tokenizer.encode(prose(random, 1000), False)) / 1000
    messages = max(1, tokens // 600) if turns is None else 2 * turns - 1
    words = max(1, int(tokens / per_word / messages))
    said = [{"role": "system", "content": "You are a helpful assistant."}]
    said += [
        {"role": "assistant" if number % 2 else "user", "content": prose(random, words)}
        for number in range(messages | 1)
    ]
    return {"model": "m", "messages": said}
