"""How long a decision takes: render, encode, hash, match, choose; 64 replicas that hold a million blocks.

Every prompt is new to the process, so nothing comes out of a cache of ours; its words are not, as in any language. What
the replicas hold of it they tell first: 16,000 new blocks at 8k tokens. Then a few other requests are routed, as they
would be in the time that so many take to compute, or the processor's own caches would hold nothing but new blocks.

    {"bench":"decide","tokens":8192,"render_ms":..,"encode_ms":..,"hash_ms":..,"match_ms":..,"choose_ms":..,"total_ms":..}
"""

import argparse
import json
from collections.abc import Callable, Mapping
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from bench.world import BLOCK_SIZE, SPACE, World, conversation
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer, load_tokenizer
from loadtest.replica.text import TOKENIZER
from routing.blocks import root_hash
from routing.decision import Prompt, RouteRequest

SIZES = (1024, 8192, 32768, 131072)
STAGES = ("render", "encode", "hash", "match", "choose")


def measure(
    world: World, tokenizer: Tokenizer, renderer: ChatRenderer, body: Mapping[str, Any], *, held: bool = True
) -> list[float]:
    """Seconds of each stage for one prompt. held: every replica is made to hold a part of it first."""
    times: list[float] = []

    def timed(stage: Callable[[], Any]) -> Any:
        start = perf_counter()
        result = stage()
        times.append(perf_counter() - start)
        return result

    text, _ = timed(lambda: renderer.render(body, renderer.tools(body)))
    ids = timed(lambda: tokenizer.encode(text, False))
    blocks = timed(lambda: world.chains.hashes(ids, BLOCK_SIZE, root_hash(b"", "m", BLOCK_SIZE)))
    if held:
        world.hold(blocks)
    world.route_others()
    matches = timed(lambda: [world.index.match(blocks)])
    request = RouteRequest("m", (Prompt(len(ids), {SPACE: blocks}),))
    decision = timed(lambda: world.router.route(request, matches, world.policy, perf_counter()))
    world.serve(decision, blocks)
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
        runs = [measure(world, tokenizer, renderer, conversation(random, tokenizer, size)) for _ in range(args.repeats)]
        stages = {f"{name}_ms": median(run[at] for run in runs) * 1e3 for at, name in enumerate(STAGES)}
        stages["total_ms"] = median(sum(run) for run in runs) * 1e3
        line = {"bench": "decide", "tokens": size, **{name: round(value, 3) for name, value in stages.items()}}
        print(json.dumps({**line, "encoder": tokenizer.encoder.name}), flush=True)


if __name__ == "__main__":
    main()
