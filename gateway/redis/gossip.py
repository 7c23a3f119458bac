"""Gateways tell each other what they have under way, and what they have just sent where.

A stream in Redis carries it: each gateway adds its words, and reads those of the others as they come. A word holds all
that its gateway has under way, so one that is lost is made up for by the next.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import msgspec

from gateway.fleet.others import Others, Sent
from gateway.redis.names import engine_id, engine_name, pack, unpack
from gateway.redis.scripts import FAILURES, Client
from routing.decision import Decision
from routing.load import UnderWay
from routing.types import BlockHash, EngineId

logger = logging.getLogger(__name__)

_HEARTBEAT = 1.0
"""seconds after which a gateway repeats what it has under way, though nothing has changed"""
_WAITING_MS = 500
"""for which Redis holds the question for more"""
_WORDS = 1000
"""that the stream keeps, about"""
_FORGOTTEN = 60
"""seconds after the last word that Redis forgets the stream"""
_BLOCKS = 1024
"""of one request that others are told of: what it begins with is what others may share"""
_ROUTES = 256
"""that one word tells of at the most, the latest"""


class _Word(msgspec.Struct, frozen=True, array_like=True):
    gateway: str
    under_way: dict[str, UnderWay]
    """by engine"""
    sent: list[tuple[str, bytes, float]]
    """engine, blocks of 8 bytes each, seconds for which they count"""


class Gossip:
    """One gateway's part in it.

    key: of the stream. gateway: this one, unlike any other. others: takes in what is heard.
    ours: what this gateway has under way, by engine; engines with nothing left out.
    lifetime: seconds after its first token that a prompt's blocks count as held. interval: seconds between two words.
    """

    def __init__(
        self,
        client: Client,
        key: str,
        gateway: str,
        others: Others,
        ours: Callable[[], Mapping[EngineId, UnderWay]],
        *,
        lifetime: float,
        interval: float,
        retry: float,
    ) -> None:
        self._client = client
        self._key = key
        self._gateway = gateway
        self._others = others
        self._ours = ours
        self._lifetime = lifetime
        self._interval = interval
        self._retry = retry
        self._sent: list[Decision] = []
        self.told = self.heard = self.unreadable = 0
        """words"""

    def note(self, decision: Decision) -> None:
        """A request goes where this decision says."""
        if any(decision.unheld):
            self._sent.append(decision)

    async def tell(self) -> None:
        """Tell the others until cancelled."""
        loop = asyncio.get_running_loop()
        before: Mapping[EngineId, UnderWay] = {}
        at = -inf
        while True:
            await asyncio.sleep(self._interval)
            under_way = self._ours()
            if not self._sent and under_way == before and loop.time() - at < _HEARTBEAT:
                continue
            sent, self._sent = self._sent[-_ROUTES:], []
            word = self._word(under_way, sent)
            try:
                await self._add(word)
            except FAILURES as exc:
                logger.debug("others are not told: %s", exc)
                await asyncio.sleep(self._retry)
            else:
                self.told += 1
                before, at = under_way, loop.time()

    async def listen(self) -> None:
        """Hear the others until cancelled."""
        last: bytes | None = None
        while True:
            try:
                if last is None:
                    last = await self._last()
                answer = await self._client.xread({self._key: last}, count=_WORDS, block=_WAITING_MS)
            except FAILURES as exc:
                logger.debug("others are not heard: %s", exc)
                self._others.settle()
                await asyncio.sleep(self._retry)
                continue
            for id, fields in _entries(answer):
                last = id
                self._take_in(fields[b"word"])
            self._others.settle()
            await asyncio.sleep(self._interval)  # words that come close together are heard together

    async def leave(self) -> None:
        """Tell the others that nothing is under way here any more. Where they can't be told they will miss this one."""
        word = self._word({}, [])
        with suppress(*FAILURES):
            await self._add(word)

    async def _last(self) -> bytes:
        """The word after which to begin: what was said before is old."""
        entries: Any = await self._client.xrevrange(self._key, count=1)
        return entries[0][0] if entries else b"0-0"

    def _word(self, under_way: Mapping[EngineId, UnderWay], sent: Sequence[Decision]) -> bytes:
        word = _Word(
            self._gateway,
            {engine_name(engine): load for engine, load in under_way.items()},
            [
                (engine_name(one.engine), pack(blocks), one.prediction.ttft + self._lifetime)
                for one in sent
                for blocks in _first(one.unheld)
            ],
        )
        return msgspec.msgpack.encode(word)

    async def _add(self, word: bytes) -> None:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xadd(self._key, {"word": word}, maxlen=_WORDS, approximate=True)
        pipeline.expire(self._key, _FORGOTTEN)
        await pipeline.execute()

    def _take_in(self, data: bytes) -> None:
        try:
            word = msgspec.msgpack.decode(data, type=_Word)
            under_way = {engine_id(name): load for name, load in word.under_way.items()}
            sent = [
                Sent(engine_id(name), list(map(BlockHash, unpack(blocks))), seconds)
                for name, blocks, seconds in word.sent
            ]
        except (msgspec.MsgspecError, ValueError):
            self.unreadable += 1
            return
        if word.gateway != self._gateway:
            self.heard += 1
            self._others.hear(word.gateway, under_way, sent)


def _first(prompts: Sequence[Sequence[BlockHash]]) -> Iterator[Sequence[BlockHash]]:
    """The first `_BLOCKS` of all these, each prompt's by themselves."""
    left = _BLOCKS
    for blocks in prompts:
        if told := blocks[:left]:
            yield told
            left -= len(told)


def _entries(answer: Any) -> Sequence[tuple[bytes, Mapping[bytes, bytes]]]:
    """Ids and fields, of what the library makes of an answer about one stream."""
    if not answer:
        return ()
    ((_, entries),) = answer
    return entries  # type: ignore[no-any-return]
