"""What went wrong in other routers that follow engines' events, each as it must go here."""

import itertools
from collections.abc import Callable, Sequence
from random import Random

import msgspec
import pytest
from kv_books import MODEL, SECRET, Books
from kv_publisher import Publisher
from kv_receiver import ENGINE, Receiver, follow, until
from kv_receiver import stored as told
from membership_world import SOURCES, A, membership_world, replica, update

from gateway.fleet.probe import replica_id
from gateway.kv.sources import published, reachable
from gateway.kv.subscriber import Subscriber
from routing.blocks import block_hashes, root_hash
from routing.cost import PROFILES
from routing.decision import Prompt, RouteRequest
from routing.fit import SpeedFit
from routing.fleet import Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.index import PrefixIndex
from routing.ledger import Put, Wipe
from routing.policies import POLICIES
from routing.reuse import ReuseChance
from routing.room import Room
from routing.router import Router
from routing.stakes import Stakes
from routing.types import BlockHash, EngineId, Namespace, PrefixMatch, Tier

SIZE = 4
NAMES = block_hashes(range(40), SIZE, root_hash(SECRET, MODEL, SIZE))
"""names of the prompt 0, 1, 2, ...; the engine calls its blocks 100, 101, ..."""


def stored(first: int, end: int, **fields: object) -> dict[str, object]:
    """Blocks `first` to `end` of the prompt, as vLLM announces them."""
    return {
        "type": "BlockStored",
        "block_hashes": list(range(100 + first, 100 + end)),
        "parent_block_hash": 99 + first if first else None,
        "token_ids": list(range(first * SIZE, end * SIZE)),
        "block_size": SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * (end - first),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    } | fields


def removed(first: int, end: int) -> Sequence[dict[str, object]]:
    return [
        {"type": "BlockRemoved", "block_hashes": [100 + block], "medium": "GPU", "group_idx": 0}
        for block in range(first, end)
    ]


def test_a_sequence_number_is_not_only_read_but_checked() -> None:
    books = Books()
    books.tell(0, stored(0, 4))
    books.tell(2, stored(4, 6))  # 1 removed blocks 0 to 4
    assert books.prefix(NAMES) == PrefixMatch(0, 0)
    assert books.feed.counters.gaps == 1


async def test_late_events_do_not_bring_back_a_replica_that_was_removed() -> None:
    async with membership_world() as world:
        world.membership.join(replica(), SOURCES)
        world.membership.take_in(update(1, [Put(Tier.GPU, NAMES)]))
        world.membership.leave(A.replica, "test")
        world.membership.take_in(update(1, [Put(Tier.GPU, NAMES)]))
        assert (world.index.match(NAMES), len(world.index), len(world.fleet)) == ({}, 0, 0)
        world.membership.join(replica(), SOURCES)
        world.membership.take_in(update(1, [Put(Tier.GPU, NAMES)]))
        assert world.index.match(NAMES) == {}


def test_a_live_removal_waits_for_the_replayed_store_before_it() -> None:
    books = Books(replayable=True)
    books.answered()
    books.tell(0, stored(0, 1))
    books.tell(2, *removed(1, 4))
    assert books.asked == [0, 0]
    assert books.prefix(NAMES) == PrefixMatch(1, 1)
    books.answer(0, stored(0, 1))
    books.answer(1, stored(1, 4))
    assert books.prefix(NAMES) == PrefixMatch(4, 4)
    books.answered()
    assert books.prefix(NAMES) == PrefixMatch(1, 1)
    assert books.feed.counters.clears == 0


async def test_a_replay_without_a_topic_frame_is_understood(
    subscriber: Subscriber, make_publisher: Callable[..., Publisher], receiver: Receiver
) -> None:
    publisher = make_publisher(topic_in_replay=False)
    publisher.publish(told(10))
    await follow(subscriber, publisher)
    await until(receiver.holds(10))
    await until(lambda: receiver.updates[-1].feed.confirmed_at is not None)


@pytest.mark.parametrize("blocks", list(itertools.permutations(range(3))), ids=str)
def test_a_store_in_host_memory_with_empty_tokens_speaks_of_blocks_already_named(blocks: Sequence[int]) -> None:
    books = Books()
    books.tell(0, stored(0, 3))
    for seq, block in enumerate(blocks, 1):
        placeholder = stored(block, block + 1, token_ids=[], block_size=0, parent_block_hash=None, medium="CPU")
        del placeholder["extra_keys"]
        books.tell(seq, placeholder)
    books.tell(4, *removed(1, 3))
    assert books.prefix(NAMES) == PrefixMatch(1, 3)
    assert books.ledger.orphans == 0


def test_replicas_at_ipv6_addresses_keep_their_names() -> None:
    id = replica_id("http://[fd00::7]:8000")
    assert id == "[fd00::7]:8000"
    assert replica_id("http://[fd00::7]:8001") != id
    assert published("tcp://*:5557", "fd00::7") == reachable("tcp://[::]:5557", "[fd00::7]") == "tcp://[fd00::7]:5557"
    index, engines = PrefixIndex(), [EngineId(id, rank) for rank in range(2)]
    for rank, engine in enumerate(engines):
        index.apply(engine, [Put(Tier.GPU, NAMES[: rank + 1])])
    assert index.match(NAMES) == {engines[0]: PrefixMatch(1, 1), engines[1]: PrefixMatch(2, 2)}


@pytest.mark.parametrize(("tokens", "cached"), [(16, 12), (17, 16), (40, 36)])
def test_the_block_with_the_last_token_is_no_hit(tokens: int, cached: int) -> None:
    fleet, space = Fleet(), Namespace(MODEL, SIZE)
    fleet.join(Replica(ENGINE.replica, f"http://{ENGINE.replica}", (ModelCard(MODEL),), block_size=SIZE))
    fit = SpeedFit(PROFILES["qwen3-32b-h100"])
    router = Router(fleet, FreshRoutes(2.0), fit, Stakes(Room(ReuseChance(), 600.0)))
    request = RouteRequest(MODEL, (Prompt(tokens, {space: NAMES[: tokens // SIZE]}),))
    matches = [{ENGINE: PrefixMatch(tokens // SIZE, tokens // SIZE)}]
    assert router.route(request, matches, POLICIES["kv-aware"](Random(0)), 0.0).cached_tokens == cached


def test_a_router_that_joins_mid_stream_waits_for_the_roots_and_then_knows_what_follows() -> None:
    books = Books(replayable=True)
    books.answer(7, stored(2, 4))  # the buffer has lost what stored blocks 0 and 1
    books.answered()
    books.tell(8, stored(4, 6))
    assert books.prefix(NAMES) == PrefixMatch(0, 0)
    assert books.ledger.orphans == 4
    books.tell(9, stored(0, 2))  # the roots were evicted and computed again
    assert books.prefix(NAMES) == PrefixMatch(6, 6)
    assert books.ledger.orphans == 0


def test_a_hash_of_32_bytes_is_the_integer_that_its_last_8_make() -> None:
    digests = [bytes([block]) * 24 + (100 + block).to_bytes(8, "big") for block in range(4)]
    books = Books()
    books.tell(0, stored(0, 4, block_hashes=digests))
    books.tell(1, *removed(3, 4))
    assert books.prefix(NAMES) == PrefixMatch(3, 3)
    books.tell(2, {"type": "BlockRemoved", "block_hashes": [digests[2]], "medium": "GPU", "group_idx": 0})
    assert books.prefix(NAMES) == PrefixMatch(2, 2)


async def test_a_cleared_cache_is_not_only_logged() -> None:
    books = Books()
    books.tell(0, stored(0, 4))
    books.tell(1, stored(0, 2, medium="CPU", token_ids=[], block_size=0))
    books.tell(2, {"type": "AllBlocksCleared"})
    assert books.prefix(NAMES) == PrefixMatch(0, 2)
    async with membership_world() as world:
        world.membership.join(replica(), SOURCES)
        world.membership.take_in(update(1, [Put(Tier.GPU, NAMES[:2])]))
        world.fresh.credit(A, NAMES)
        world.membership.take_in(update(1, [Wipe(Tier.GPU)]))
        assert world.index.match(NAMES) == {}
        assert world.fresh.extend(A, NAMES, 0, now=0.1) == 0


def test_signed_hashes_and_unsigned_ones_are_the_same_blocks() -> None:
    """TensorRT-LLM's are signed."""
    high = [2**64 - 1 - block for block in range(3)]
    books = Books()
    plain = {"type": "BlockStored", "token_ids": list(range(3 * SIZE)), "block_size": SIZE, "lora_id": None}
    books.tell(0, plain | {"block_hashes": [hash_ - 2**64 for hash_ in high], "parent_block_hash": None})
    assert books.prefix(NAMES) == PrefixMatch(3, 3)
    books.tell(1, {"type": "BlockRemoved", "block_hashes": [high[2]]})
    assert books.prefix(NAMES) == PrefixMatch(2, 2)


def test_what_the_first_block_never_says_is_not_guessed() -> None:
    """A router that took the parent for the root would give every prompt's middle the same name."""
    books = Books()
    books.tell(0, stored(1, 4))
    assert books.blocks() == (0, 0)
    middle: list[BlockHash] = block_hashes(range(SIZE, 4 * SIZE), SIZE, root_hash(SECRET, MODEL, SIZE))
    assert books.prefix(middle) == PrefixMatch(0, 0)


def test_the_batch_element_that_other_decoders_fail_on() -> None:
    books = Books()
    books.perform(books.feed.live(0, msgspec.msgpack.encode([1.0, [stored(0, 2)], None]), 0.0))
    assert books.prefix(NAMES) == PrefixMatch(2, 2)
