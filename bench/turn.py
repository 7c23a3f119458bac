"""What is saved by encoding piece by piece: the next turn of a long chat.

{"bench":"turn","encoder":"fastokens"|"hf","tokens":20000,"total_ms":..}
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from statistics import median

from transformers import AutoTokenizer

from bench.decide import measure
from bench.world import World, conversation
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.cuts import spaces_between_words
from gateway.prompt.encoders import HuggingFaceEncoder
from gateway.prompt.incremental import proven_incremental
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import CACHE_BYTES, Tokenizer, load_tokenizer
from loadtest.replica.text import TOKENIZER

TURNS = 30
TOKENS = 20_000


def tokenizers(source: str) -> Iterator[tuple[str, Tokenizer]]:
    """The tokenizer with each encoder, by the encoder's name."""
    fast = load_tokenizer(source)
    yield fast.encoder.name, fast
    backend = AutoTokenizer.from_pretrained(source, local_files_only=True).backend_tokenizer
    spaces = spaces_between_words(backend.get_vocab(False))
    slow = proven_incremental(HuggingFaceEncoder(backend), fast.added_tokens, spaces=spaces, max_bytes=CACHE_BYTES)
    assert slow is not None, "this tokenizer can't be encoded piece by piece"
    yield "hf", replace(fast, encoder=slow)


def options(text: str | None) -> argparse.Namespace:
    """The command line. text: what the bench does."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--tokenizer", default=str(TOKENIZER), help="a model's folder (default: the shipped one)")
    parser.add_argument("--repeats", type=int, default=15)
    return parser.parse_args()


def main() -> None:
    """Print a line for each encoder."""
    args = options(__doc__)
    random = Random(0)
    world = World(random)
    for name, tokenizer in tokenizers(args.tokenizer):
        renderer = ChatRenderer(tokenizer, PromptSettings())
        times = []
        for _ in range(args.repeats):
            chat = conversation(random, tokenizer, TOKENS, turns=TURNS)
            measure(world, tokenizer, renderer, {**chat, "messages": chat["messages"][:-2]})
            times.append(sum(measure(world, tokenizer, renderer, chat, held=False)))
        line = {"bench": "turn", "encoder": name, "tokens": TOKENS, "total_ms": round(median(times) * 1e3, 3)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
