"""A simulated hybrid model, against a real one's frames (Gemma 3, four groups) and what the gateway predicts."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from kv_books import MODEL, SECRET, Books
from recorded import recorded

from loadtest.replica.engine import Engine
from loadtest.replica.kv_events import EventBatch, KVEvent
from loadtest.replica.request import Request
from loadtest.replica.sliding import SlidingSettings
from loadtest.replica.timing import PROFILES
from routing.blocks import block_hashes, root_hash

SIZE, WINDOW = 32, 128


class World:
    """A hybrid engine that hears of requests one after the other; what it tells goes through the gateway's books."""

    def __init__(self, blocks: int = 4096, kept: int = 4096) -> None:
        self.engine = Engine(PROFILES["llama-8b-h100"], blocks, SIZE, sliding=SlidingSettings(3, WINDOW, kept))
        self.books = Books()
        self.batches: list[list[KVEvent]] = []

    def ask(self, prompt: Sequence[int], output: int = 2) -> int:
        """Returns how many tokens were found."""
        request = Request("r", prompt, [1] * output, SIZE)
        self.engine.add(request)
        while step := self.engine.start_step():
            events = self.engine.finish_step(step).events
            if events:
                payload = msgspec.msgpack.encode(EventBatch(float(len(self.batches)), events, 0))
                self.books.perform(self.books.feed.live(len(self.batches), payload, 0.0))
                self.batches.append(events)
        return request.cached or 0

    def predicted(self, prompt: Sequence[int]) -> int:
        names = block_hashes(prompt, SIZE, root_hash(SECRET, MODEL, SIZE))
        return self.books.prefix(names, (len(prompt) - 1) // SIZE).l0 * SIZE


def shape(batch: Sequence[KVEvent], names: dict[int, int]) -> list[object]:
    """Group, kind, window, length of the range, and the hashes by the order in which full attention named them."""
    events = list(msgspec.msgpack.decode(msgspec.msgpack.encode(batch)))
    for event in events:
        if event["kv_cache_spec_kind"] == "full_attention":
            for name in event["block_hashes"]:
                names.setdefault(name, len(names))
    return [
        (
            event["group_idx"],
            event["kv_cache_spec_kind"],
            event.get("kv_cache_spec_sliding_window"),
            len(event["token_ids"]),
            [names[name] for name in event["block_hashes"]],
        )
        for event in events
    ]


def test_two_prompts_that_begin_alike_are_told_of_as_a_real_engine_does() -> None:
    batches = [msgspec.msgpack.decode(message.payload)[1] for message in recorded("hybrid_gemma3")[:3]]
    first, _, second = ([*batch[-1]["token_ids"], *range(10)] for batch in batches)
    world = World()
    assert world.ask(first, output=30) == 0
    assert world.ask(second) == 0
    theirs: dict[int, int] = {}
    ours: dict[int, int] = {}
    assert [shape(batch, ours) for batch in world.batches] == [shape(batch, theirs) for batch in batches]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_predicted_is_found(seed: int) -> None:
    random, world = Random(seed), World()
    stems = [[random.randrange(1000) for _ in range(700)] for _ in range(3)]
    found = 0
    for _ in range(60):
        stem = random.choice(stems)
        prompt = stem[: random.randint(1, len(stem))] + [
            random.randrange(1000) for _ in range(random.choice([0, 40, 300]))
        ]
        predicted = world.predicted(prompt)
        assert world.ask(prompt) == predicted
        found += predicted > 0
    assert found > 5


@pytest.mark.parametrize("seed", range(4))
def test_where_memory_is_short_never_more_is_predicted_than_is_found(seed: int) -> None:
    random, world = Random(seed), World(blocks=80, kept=30)
    stems = [[random.randrange(1000) for _ in range(700)] for _ in range(3)]
    found = 0
    for _ in range(120):
        prompt = random.choice(stems)[: random.randint(300, 700)] + [
            random.randrange(9) for _ in range(random.choice([0, 90]))
        ]
        predicted = world.predicted(prompt)
        cached = world.ask(prompt)
        assert predicted <= cached
        found += cached > 0
    assert found > 10
