"""Random histories of one engine, booked by the ledger and by a multiset."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.blocks import block_hashes, root_hash
from routing.books import Books, Copies
from routing.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from routing.journal import Journal
from routing.ledger import Change, Drop, Ledger, Put, Wipe
from routing.types import BlockHash, EngineHash, Tier

SECRET, MODEL, SIZE = b"", "m", 2
ROOT = root_hash(SECRET, MODEL, SIZE)

Text = tuple[int, ...]
"""the content of a block and of all before it, one token for each block"""


@dataclass
class Engine:
    """The oracle: a multiset of what is held, by tier and content."""

    held: Counter[tuple[Tier, Text]] = field(default_factory=Counter)

    def store(self, text: Text, depth: int) -> list[KVEvent]:
        """A prompt is computed as vLLM does it: what is held in a row from the start is read, the rest stored.

        depth: how much of it may be read; less than is held makes twins. Those of a range that starts at position 0 are
        not counted, as the ledger can't tell them from a report.
        """
        read = 0
        while read < min(depth, len(text)) and self.held[Tier.GPU, text[: read + 1]]:
            read += 1
        new = [text[: end + 1] for end in range(read, len(text))]
        stored = Counter((Tier.GPU, block) for block in new)
        self.held = self.held + stored if read else self.held | stored
        if not new:
            return []
        tokens = [token for block in new for token in block_tokens(block)]
        parent = engine_hash(text[:read]) if read else None
        return [BlockStored(list(map(engine_hash, new)), parent, tokens, SIZE, Tier.GPU, None, None)]

    def report(self, text: Text) -> list[KVEvent]:
        """Tell again of what is held in a row from the start, as under `kv_cache_report_mode: full`."""
        hit = list(takewhile(lambda block: self.held[Tier.GPU, block], (text[: end + 1] for end in range(len(text)))))
        tokens = [token for block in hit for token in block_tokens(block)]
        return [BlockStored(list(map(engine_hash, hit)), None, tokens, SIZE, Tier.GPU, None, None)] if hit else []

    def remove(self, tier: Tier, block: Text) -> list[KVEvent]:
        if not self.held[tier, block]:
            return []
        self.held[tier, block] -= 1
        return [BlockRemoved([engine_hash(block)], tier)]

    def offload(self, block: Text, self_describing: bool) -> list[KVEvent]:
        if not self.held[Tier.GPU, block] or self.held[Tier.CPU, block]:
            return []
        self.held[Tier.CPU, block] += 1
        parent = engine_hash(block[:-1]) if self_describing and len(block) > 1 else None
        tokens = block_tokens(block) if self_describing else []
        size = SIZE if self_describing else 0
        return [BlockStored([engine_hash(block)], parent, tokens, size, Tier.CPU, None, None)]

    def clear(self) -> list[KVEvent]:
        for tier, block in list(self.held):
            if tier is Tier.GPU:
                del self.held[tier, block]
        return [AllBlocksCleared()]


def block_tokens(block: Text) -> list[int]:
    return [block[-1]] * SIZE


def engine_hash(block: Text) -> EngineHash:
    return EngineHash(hash(block) % 2**64)


def name(block: Text) -> BlockHash:
    return block_hashes([token for token in block for _ in range(SIZE)], SIZE, ROOT)[-1]


def take(held: set[tuple[Tier, BlockHash]], changes: list[Change]) -> None:
    for change in changes:
        match change:
            case Put(tier, blocks):
                assert held.isdisjoint((tier, block) for block in blocks), "put twice"
                held |= {(tier, block) for block in blocks}
            case Drop(tier, blocks):
                assert held.issuperset((tier, block) for block in blocks), "dropped without being there"
                held -= {(tier, block) for block in blocks}
            case Wipe(wiped):
                held -= {(tier, block) for tier, block in held if wiped in (None, tier)}


texts = st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple)
steps = st.one_of(
    st.tuples(st.just("store"), texts, st.integers(1, 5)),
    st.tuples(st.just("remove"), texts, st.sampled_from([Tier.GPU, Tier.CPU])),
    st.tuples(st.just("offload"), texts, st.booleans()),
    st.tuples(st.sampled_from(["clear", "report"]), texts, st.none()),
)


def run(engine: Engine, kind: str, text: Text, how: object) -> list[KVEvent]:
    if kind == "store" and isinstance(how, int):
        return engine.store(text, how)
    if kind == "remove" and isinstance(how, Tier):
        return engine.remove(how, text)
    if kind == "offload":
        return engine.offload(text, bool(how))
    return engine.report(text) if kind == "report" else engine.clear()


@settings(max_examples=300)
@given(st.lists(steps, max_size=60))
def test_the_ledger_holds_what_the_engine_holds(history: list[tuple[str, Text, object]]) -> None:
    engine, ledger = Engine(), Ledger(SECRET, MODEL)
    held: set[tuple[Tier, BlockHash]] = set()
    for kind, text, how in history:
        for event in run(engine, kind, text, how):
            take(held, ledger.apply(event))
        assert held == {(tier, name(block)) for (tier, block), copies in engine.held.items() if copies}


@settings(max_examples=300)
@given(st.lists(steps, max_size=60), st.integers(0, 30), st.sampled_from([2, 100]))
def test_joining_late_never_claims_what_the_engine_does_not_hold(
    history: list[tuple[str, Text, object]], joined: int, room: int
) -> None:
    engine, ledger = Engine(), Ledger(SECRET, MODEL, remembered=room, waiting=room)
    held: set[tuple[Tier, BlockHash]] = set()
    for number, (kind, text, how) in enumerate(history):
        for event in run(engine, kind, text, how):
            if number >= joined:
                take(held, ledger.apply(event))
        assert held <= {(tier, name(block)) for (tier, block), copies in engine.held.items() if copies}


@settings(max_examples=300)
@given(st.lists(steps, max_size=60), st.one_of(st.sets(st.integers(0, 60)), st.just(set(range(60)))))
def test_another_ledger_goes_on_exactly_from_what_was_kept(
    history: list[tuple[str, Text, object]], handed_over: set[int]
) -> None:
    engine, ledger = Engine(), Ledger(SECRET, MODEL, journal=Journal())
    held: set[tuple[Tier, BlockHash]] = set()
    names: dict[EngineHash, BlockHash] = {}
    copies: dict[BlockHash, tuple[Copies, ...]] = {}
    for number, (kind, text, how) in enumerate(history):
        for event in run(engine, kind, text, how):
            take(held, ledger.apply(event))
        entries = ledger.entries()
        names |= {hash_: block for hash_, block in entries.names.items() if block is not None}
        for hash_ in [hash_ for hash_, block in entries.names.items() if block is None]:
            names.pop(hash_, None)
        copies |= entries.copies
        if number in handed_over:
            in_tiers = {tier: {block for place, block in held if place is tier} for tier in (Tier.GPU, Tier.CPU)}
            counted = {block: places for block, places in copies.items() if places}
            ledger = Ledger(SECRET, MODEL, journal=Journal())
            assert ledger.restore(Books(names, in_tiers, counted, entries.traits)) == []
        assert held == {(tier, name(block)) for (tier, block), copies in engine.held.items() if copies}
