"""What is saved by encoding piece by piece: the next turn of a long chat, and a known document with a new question.

{"bench":"turn","encoder":"fastokens","tokens":20000,"total_ms":..}
{"bench":"document","encoder":"hf","tokens":110000,"warm_total_ms":..}
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from statistics import median
from typing import Any

from transformers import AutoTokenizer

from bench.decide import measure
from bench.world import World, conversation, prose
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.cuts import spaces_between_words
from gateway.prompt.encoders import HuggingFaceEncoder
from gateway.prompt.incremental import proven_incremental
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import CACHE_BYTES, Tokenizer, load_tokenizer
from loadtest.replica.text import TOKENIZER

TURNS = 30
TURN_TOKENS = 20_000
DOCUMENT_TOKENS = 110_000


def tokenizers(source: str) -> Iterator[tuple[str, Tokenizer]]:
    """The tokenizer with each encoder, by the encoder's name."""
    fast = load_tokenizer(source)
    yield fast.encoder.name, fast
    backend = AutoTokenizer.from_pretrained(source, local_files_only=True).backend_tokenizer
    spaces = spaces_between_words(backend.get_vocab(False))
    slow = proven_incremental(HuggingFaceEncoder(backend), fast.added_tokens, spaces=spaces, max_bytes=CACHE_BYTES)
    assert slow is not None, "this tokenizer can't be encoded piece by piece"
    yield "hf", replace(fast, encoder=slow)


def next_turn(body: Mapping[str, Any], answer: str, question: str) -> Mapping[str, Any]:
    """The conversation one turn later."""
    said = [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
    return {**body, "messages": [*body["messages"], *said]}


def main() -> None:
    """Print a line for each case and encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default=str(TOKENIZER), help="a model's folder (default: the shipped one)")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    random = Random(0)
    world = World(random)
    for name, tokenizer in tokenizers(args.tokenizer):
        renderer = ChatRenderer(tokenizer, PromptSettings())
        turns, documents = [], []
        document = conversation(random, tokenizer, DOCUMENT_TOKENS, turns=1)
        measure(world, tokenizer, renderer, document)
        for _ in range(args.repeats):
            before = conversation(random, tokenizer, TURN_TOKENS * (TURNS - 1) // TURNS, turns=TURNS - 1)
            measure(world, tokenizer, renderer, before)
            after = next_turn(before, prose(random, 200), prose(random, 200))
            turns.append(sum(measure(world, tokenizer, renderer, after, held=False)))
            asked = next_turn(document, "Go on.", prose(random, 30))
            documents.append(sum(measure(world, tokenizer, renderer, asked, held=False)))
        turn = {"bench": "turn", "encoder": name, "tokens": TURN_TOKENS, "total_ms": round(median(turns) * 1e3, 3)}
        print(json.dumps(turn), flush=True)
        warm = round(median(documents) * 1e3, 3)
        line = {"bench": "document", "encoder": name, "tokens": DOCUMENT_TOKENS, "warm_total_ms": warm}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
