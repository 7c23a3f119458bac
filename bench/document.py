"""What is saved by encoding piece by piece: a long document that was asked about before, and a new question.

{"bench":"document","encoder":"fastokens"|"hf","tokens":110000,"warm_total_ms":..}
"""

import json
from random import Random
from statistics import median

from bench.decide import measure
from bench.turn import options, tokenizers
from bench.world import World, conversation, prose
from gateway.prompt.chat import ChatRenderer
from gateway.prompt.settings import PromptSettings

TOKENS = 110_000


def main() -> None:
    """Print a line for each encoder."""
    args = options(__doc__)
    random = Random(0)
    world = World(random)
    for name, tokenizer in tokenizers(args.tokenizer):
        renderer = ChatRenderer(tokenizer, PromptSettings())
        document = conversation(random, tokenizer, TOKENS, turns=1)
        measure(world, tokenizer, renderer, document)
        times = []
        for _ in range(args.repeats):
            answer = {"role": "assistant", "content": "Go on."}
            question = {"role": "user", "content": prose(random, 30)}
            asked = {**document, "messages": [*document["messages"], answer, question]}
            times.append(sum(measure(world, tokenizer, renderer, asked, held=False)))
        warm = round(median(times) * 1e3, 3)
        print(json.dumps({"bench": "document", "encoder": name, "tokens": TOKENS, "warm_total_ms": warm}), flush=True)


if __name__ == "__main__":
    main()
