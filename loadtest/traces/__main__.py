"""`python -m loadtest.traces FILE`: the hit ratios that no router can beat on a trace, as JSON lines."""

import argparse
import json
import sys
from pathlib import Path

from loadtest.bounds import infinite, pooled_belady, pooled_lru
from loadtest.replica.timing import PROFILES
from loadtest.traces.files import load
from loadtest.traces.trace import TraceError

REPLICA_TOKENS = PROFILES["qwen3-32b-h100"].l0_tokens
FLEETS = (4, 8, 16, 32, 64)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.traces", description=__doc__)
    parser.add_argument("file", type=Path, help="a trace: Mooncake's form, agents' sessions (.gz) or Azure's (.csv)")
    parser.add_argument(
        "--tokens",
        type=int,
        nargs="+",
        default=[replicas * REPLICA_TOKENS for replicas in FLEETS],
        help="sizes of the fleet's caches together (default: 4 to 64 times Qwen3-32B on two H100)",
    )
    args = parser.parse_args()
    try:
        trace = load(args.file)
    except (OSError, TraceError) as error:
        print(error, file=sys.stderr)
        return 1
    lookups = list(trace.lookups())
    ideal = infinite(lookups, trace.block_size)
    print(json.dumps({"trace": trace.name, "requests": len(lookups), "ideal_hit_ratio": round(ideal, 4)}))
    for tokens in args.tokens:
        blocks = tokens // trace.block_size
        lru, belady = pooled_lru(lookups, trace.block_size, blocks), pooled_belady(lookups, trace.block_size, blocks)
        print(json.dumps({"tokens": tokens, "pooled_lru": round(lru, 4), "pooled_belady": round(belady, 4)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
