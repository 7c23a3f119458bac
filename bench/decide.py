"""How long a decision takes: render, encode, hash, match, choose; 64 replicas that hold a million blocks.

Every prompt is new to the process, so nothing comes out of a cache of ours.

    {"bench":"decide","tokens":8192,"render_ms":..,"encode_ms":..,"hash_ms":..,"match_ms":..,"choose_ms":..,"total_ms":..}
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from gateway.prompt.chat import ChatRenderer
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer, load_tokenizer
from loadtest.replica.text import TOKENIZER
from routing.blocks import block_hashes, root_hash
from routing.cost import PROFILES
from routing.decision import Prompt, RouteRequest
from routing.fleet import Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.index import PrefixIndex
from routing.ledger import Put
from routing.policies import POLICIES
from routing.router import Router
from routing.types import BlockHash, EngineId, Namespace, ReplicaId, Tier

SIZES = (1024, 8192, 32768, 131072)
REPLICAS = 64
BLOCKS = 1_000_000
BLOCK_SIZE = 16
SPACE = Namespace("m", BLOCK_SIZE)
STAGES = ("render", "encode", "hash", "match", "choose")


class World:
    """A fleet of 64 replicas and what they hold."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.index = PrefixIndex()
        self.fleet = Fleet()
        for number in range(REPLICAS):
            id = ReplicaId(f"10.0.0.{number}:8000")
            self.fleet.join(Replica(id, f"http://{id}", (ModelCard("m"),), capacity_blocks=BLOCKS // REPLICAS))
            blocks = [BlockHash(random.getrandbits(64)) for _ in range(BLOCKS // REPLICAS)]
            self.index.apply(EngineId(id, 0), [Put(Tier.GPU, blocks)])
        self.router = Router(
            self.fleet, FreshRoutes(2.0), PROFILES["qwen3-32b-h100"], lambda engine: self.index.held(engine, Tier.GPU)
        )
        self.policy = POLICIES["kv-aware"](random)

    def hold(self, blocks: Sequence[BlockHash]) -> None:
        """Every replica holds a prefix of `blocks`, of a length of its own."""
        for engine in self.fleet:
            self.index.apply(engine.id, [Put(Tier.GPU, blocks[: self.random.randrange(len(blocks))])])


def conversation(random: Random, tokenizer: Tokenizer, tokens: int) -> Mapping[str, Any]:
    """A chat whose prompt has about `tokens` tokens: turns of some hundred words that nobody has said before."""
    words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(4000)]
    messages: list[Mapping[str, str]] = [{"role": "system", "content": "You are a helpful assistant."}]
    missing = tokens
    while missing > 0:
        text = " ".join(random.choices(words, k=min(300, max(1, missing // 4))))
        messages.append({"role": "assistant" if len(messages) % 2 == 0 else "user", "content": text})
        missing -= len(tokenizer.encode(text, False)) + 5
    return {"model": "m", "messages": messages}


def measure(world: World, tokenizer: Tokenizer, renderer: ChatRenderer, body: Mapping[str, Any]) -> list[float]:
    """Seconds of each stage for one prompt."""
    times: list[float] = []

    def timed(stage: Callable[[], Any]) -> Any:
        start = perf_counter()
        result = stage()
        times.append(perf_counter() - start)
        return result

    text, _ = timed(lambda: renderer.render(body, renderer.tools(body)))
    ids = timed(lambda: tokenizer.encode(text, False))
    blocks = timed(lambda: block_hashes(ids, BLOCK_SIZE, root_hash(b"", "m", BLOCK_SIZE)))
    world.hold(blocks)
    matches = timed(lambda: [world.index.match(blocks)])
    request = RouteRequest("m", (Prompt(len(ids), {SPACE: blocks}),))
    timed(lambda: world.router.route(request, matches, world.policy, perf_counter()))
    return times


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default=str(TOKENIZER), help="a model's folder (default: the shipped one)")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    random = Random(0)
    tokenizer = load_tokenizer(args.tokenizer)
    renderer = ChatRenderer(tokenizer, PromptSettings())
    world = World(random)
    for size in SIZES:
        runs = []
        for _ in range(args.repeats):
            body = conversation(random, tokenizer, size)
            runs.append(measure(world, tokenizer, renderer, body))
        stages = {f"{name}_ms": median(run[at] for run in runs) * 1e3 for at, name in enumerate(STAGES)}
        stages["total_ms"] = median(sum(run) for run in runs) * 1e3
        line = {"bench": "decide", "tokens": size, **{name: round(value, 3) for name, value in stages.items()}}
        print(json.dumps({**line, "encoder": tokenizer.encoder.name}), flush=True)


if __name__ == "__main__":
    main()
