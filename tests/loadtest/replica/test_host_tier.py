"""Host memory of a simulated engine, against what real engines sent of theirs."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from kv_books import Books
from recorded import recorded

from loadtest.replica.engine import Engine
from loadtest.replica.host_tier import HostSettings, HostTier, Teller
from loadtest.replica.kv_events import EventBatch, KVEvent
from loadtest.replica.request import Request
from loadtest.replica.timing import PROFILES
from routing.blocks import block_hashes, root_hash

SIZE = 32
RECORDINGS = {
    Teller.OFFLOADING: "native_tier_a_placeholder",
    Teller.DESCRIBING: "native_tier_b",
    Teller.LMCACHE: "lmc_a",
}
PROMPT = list(range(1000, 1320))
"""ten blocks, as the recorded ones"""


class World:
    """An engine that hears of requests one after the other; what it tells goes through the gateway's books."""

    def __init__(self, teller: Teller, blocks: int = 64, gpu: int = 130) -> None:
        self.host = HostTier(HostSettings(blocks, teller, chunk_blocks=2), seed=0)
        self.engine = Engine(PROFILES["llama-8b-h100"], gpu, SIZE, host=self.host)
        self.books = Books(host_tokens=blocks * SIZE)
        self.batches: list[list[KVEvent]] = []

    def ask(self, prompt: Sequence[int]) -> int:
        """Returns how many tokens were found."""
        request = Request("r", prompt, [1, 2, 3], SIZE)
        self.engine.add(request)
        while step := self.engine.start_step():
            events = self.engine.finish_step(step).events
            if events:
                payload = msgspec.msgpack.encode(EventBatch(float(len(self.batches)), events, 0))
                self.books.perform(self.books.feed.live(len(self.batches), payload, 0.0))
                self.batches.append(events)
        return request.cached or 0

    def told(self) -> list[dict[str, Any]]:
        return [event for event in self._plain() if str(event.get("medium")).lower() == "cpu"]

    def _plain(self) -> list[dict[str, Any]]:
        events = [event for batch in self.batches for event in batch]
        return list(msgspec.msgpack.decode(msgspec.msgpack.encode(events)))


def recorded_of_host(teller: Teller) -> list[dict[str, Any]]:
    messages = recorded(RECORDINGS[teller])
    events = [event for message in messages for event in msgspec.msgpack.decode(message.payload)[1]]
    return [event for event in events if str(event.get("medium")).lower() == "cpu" and event["type"] == "BlockStored"]


def shape(event: dict[str, Any]) -> dict[str, Any]:
    """An event without what differs by nature."""
    lengths = {"tokens": len(event["token_ids"]), "hashes": len(event["block_hashes"])}
    parent = event["parent_block_hash"]
    names = ("block_hashes", "token_ids", "parent_block_hash", "session_id")
    rest = {name: value for name, value in event.items() if name not in names}
    return rest | lengths | {"parent": parent if parent in (None, 0) else "known"}


@pytest.mark.parametrize("teller", Teller)
def test_a_prompt_is_told_of_as_real_engines_tell_of_it(teller: Teller) -> None:
    world = World(teller)
    world.ask(PROMPT)
    theirs = [shape(event) for event in recorded_of_host(teller)]
    for event in world.told():
        assert shape(event) in theirs
    if teller is Teller.LMCACHE:
        assert [shape(event) for event in world.told()] == theirs[:5]
    else:
        assert len(world.told()) == 10


def test_a_call_that_goes_on_from_another_has_no_parent_in_lmcaches_words() -> None:
    world = World(Teller.LMCACHE)
    world.ask(PROMPT)
    world.ask(PROMPT + list(range(64)))
    assert shape(world.told()[-1]) in [shape(event) for event in recorded_of_host(Teller.LMCACHE)]
    assert world.told()[-1]["parent_block_hash"] == 0


@pytest.mark.parametrize("teller", Teller)
def test_what_left_the_gpu_is_found_in_host_memory_and_the_gateway_knows(teller: Teller) -> None:
    world = World(teller)
    world.ask(PROMPT)
    assert world.engine.reset_prefix_cache()
    world.ask(list(range(SIZE)))
    names = block_hashes(PROMPT, SIZE, root_hash(b"", "m", SIZE))
    assert (world.books.prefix(names).l0, world.books.prefix(names).l1) == (0, 10)
    assert world.ask([*PROMPT, 1]) == 320


@pytest.mark.parametrize("teller", [Teller.OFFLOADING, Teller.DESCRIBING])
def test_what_had_to_make_room_is_told(teller: Teller) -> None:
    world = World(teller, blocks=10)
    world.ask(PROMPT)
    world.ask(list(range(4 * SIZE)))
    world.engine.reset_prefix_cache()
    world.ask([5])
    names = block_hashes(PROMPT, SIZE, root_hash(b"", "m", SIZE))
    assert world.books.prefix(names).l1 == 6
    assert world.ask([*PROMPT, 1]) == 6 * SIZE
