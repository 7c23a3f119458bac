"""The simulated engine against frames that a real vLLM (0.32, CPU, 130 blocks of 32) sent for the same requests.

The recording holds token ids only in its events, so of each prompt the full blocks are known and the trailing partial
block is not; fillers stand in for it, and for sampled tokens that filled no block. How the 198 tokens of the
two-prompt request were split is not recorded either: the split used here is the one that agrees with its events, its
usage and the engine's hit counter. Hash values and time stamps differ by nature and are not compared.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec
import pytest

from loadtest.replica.engine import Engine
from loadtest.replica.kv_events import BlockRemoved, BlockStored, EventBatch, KVEvent
from loadtest.replica.request import Request
from loadtest.replica.timing import PROFILES

CAPTURES = Path(__file__).parents[2] / "captures"
BLOCK_SIZE = 32
BLOCKS = 130
RESET = "reset_prefix_cache"


@dataclass(frozen=True)
class Scene:
    """One step of the recorded exercise.

    prompts: (token ids, output token ids) of each sequence; none means a reset.
    """

    name: str
    prompts: Sequence[tuple[list[int], list[int]]] = ()
    salt: str | None = None


@dataclass
class Recording:
    """The recorded batches by sequence number, and each step's reported usage."""

    payloads: dict[int, bytes] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    hits: int = 0
    queries: int = 0

    def batch(self, sequence: int) -> EventBatch:
        return msgspec.msgpack.decode(self.payloads[sequence], type=EventBatch)

    def tokens(self, sequence: int) -> list[int]:
        """All token ids that the batch's stores carry."""
        events = self.batch(sequence).events
        return [token for event in events if isinstance(event, BlockStored) for token in event.token_ids]


@pytest.fixture(scope="module")
def recording() -> Recording:
    recorded = Recording()
    for line in (CAPTURES / "a_block32_sha256cbor.jsonl").read_text().splitlines()[1:]:
        row = json.loads(line)
        recorded.payloads.setdefault(row["seq"], base64.b64decode(row["frames"][2]))
    for step in json.loads((CAPTURES / "exercise_a.json").read_text()):
        usage = step.get("usage")
        if usage:
            recorded.cached[step["step"]] = usage["prompt_tokens_details"]["cached_tokens"]
        for line in step.get("lines", ()):
            if line.startswith("vllm:prefix_cache_queries_total"):
                recorded.queries = int(float(line.split()[-1]))
            if line.startswith("vllm:prefix_cache_hits_total"):
                recorded.hits = int(float(line.split()[-1]))
    return recorded


def exercise(recording: Recording) -> Iterator[Scene]:
    """The recorded requests, in order."""
    fillers = count(200_000)

    def filler(tokens: int) -> list[int]:
        return [next(fillers) for _ in range(tokens)]

    cold, decoded = recording.tokens(0), recording.tokens(2)
    ids = cold + decoded[:4]
    chat = recording.tokens(5) + filler(10)
    tools = recording.tokens(5)[:64] + recording.tokens(6) + filler(9)
    turns = tools[:256] + recording.tokens(7) + filler(23)
    yield Scene("completion 100 ids cold", [(ids, filler(2))])
    yield Scene("same again warm", [(ids, filler(2))])
    yield Scene("exact multiple of block (96 ids), all blocks cached", [(cold, filler(2))])
    yield Scene("extend +4, generate 40 (blocks filled in decode)", [(cold + decoded[:8], decoded[8:] + filler(16))])
    yield Scene("cache_salt tenant-a", [(ids, filler(2))], salt="tenant-a")
    pair = [(ids[:90], filler(1)), (ids[:64] + recording.tokens(4) + filler(12), filler(1))]
    yield Scene("batch of two prompts in one request", pair)
    yield Scene("prompt shorter than a block", [(ids[:1], filler(1))])
    yield Scene("chat request", [(chat, filler(3))])
    yield Scene("chat+tools request", [(tools, filler(3))])
    yield Scene("chat+tools multi-turn request", [(turns, filler(3))])
    yield Scene("chat stream", [(tools, filler(5))])
    yield Scene("completion stream", [(ids, filler(3))])
    yield Scene("return_token_ids", [(chat, filler(2))])
    prompts = [recording.tokens(8 + number)[-1984:] + filler(16) for number in range(4)]
    for number, prompt in enumerate(prompts):
        yield Scene(f"long prompt {number} 2000 ids", [(prompt, filler(1))])
    yield Scene("long prompt 3 again", [(prompts[3], filler(1))])
    yield Scene("first ids after eviction", [(ids, filler(1))])
    yield Scene(RESET)
    yield Scene("ids after reset", [(ids, filler(1))])


@dataclass
class Played:
    batches: list[list[KVEvent]]
    cached: dict[str, int]
    engine: Engine


@pytest.fixture(scope="module")
def played(recording: Recording) -> Played:
    engine = Engine(PROFILES["llama-8b-h100"], BLOCKS, BLOCK_SIZE)
    result = Played([], {}, engine)
    for scene in exercise(recording):
        if not scene.prompts:
            assert engine.reset_prefix_cache()
            continue
        requests = [
            Request(scene.name, prompt, output, BLOCK_SIZE, salt=scene.salt) for prompt, output in scene.prompts
        ]
        for request in requests:
            engine.add(request)
        while step := engine.start_step():
            events = engine.finish_step(step).events
            if events:
                result.batches.append(events)
        result.cached[scene.name] = requests[-1].cached or 0
    return result


def shape(events: Sequence[KVEvent], names: dict[int, int]) -> list[object]:
    """Events with hashes replaced by the order of their first appearance, so that two engines can be compared."""
    shapes: list[object] = []
    for event in events:
        if isinstance(event, BlockStored):
            stored = [names.setdefault(name, len(names)) for name in event.block_hashes]
            parent = None if event.parent_block_hash is None else names[event.parent_block_hash]
            shapes.append(("stored", stored, parent, len(event.token_ids), event.extra_keys))
        elif isinstance(event, BlockRemoved):
            shapes.append(("removed", [names[name] for name in event.block_hashes]))
        else:
            shapes.append("cleared")
    return shapes


def test_the_same_requests_give_the_same_events_in_the_same_batches(recording: Recording, played: Played) -> None:
    theirs: dict[int, int] = {}
    ours: dict[int, int] = {}
    assert len(played.batches) == 14
    for sequence, batch in enumerate(played.batches):
        assert shape(batch, ours) == shape(recording.batch(sequence).events, theirs), f"batch {sequence}"


def test_the_same_requests_find_the_same_cached_tokens(recording: Recording, played: Played) -> None:
    assert {name: played.cached[name] for name in recording.cached} == recording.cached


def test_the_hit_counters_end_where_the_recorded_ones_do(recording: Recording, played: Played) -> None:
    counters = played.engine.counters
    assert (counters.queried, counters.hit) == (recording.queries, recording.hits)


def test_recorded_payloads_encode_to_the_same_bytes(recording: Recording) -> None:
    for payload in recording.payloads.values():
        assert msgspec.msgpack.encode(msgspec.msgpack.decode(payload, type=EventBatch)) == payload
