"""Random losses, restarts and broken connections: what is booked is always one unbroken run of one process."""

from collections import deque
from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kv.actions import Action, Apply, Ask, Clear
from gateway.kv.feed import Feed

LIFE = 1000
"""messages that a process could have at most"""


class World:
    """An engine with a buffer of `buffer` messages, its connections, and what the feed has booked of it."""

    def __init__(self, buffer: int) -> None:
        self.now = 0.0
        self.feed = Feed(replayable=True, patience=5.0, quiet=20.0, room=16)
        self.booked: list[int] = []
        self._life = 0
        self._buffer = deque[tuple[int, bytes]](maxlen=buffer)
        self._seq = 0
        self._live: deque[tuple[int, bytes]] = deque()
        self._answer: deque[tuple[int, bytes] | None] = deque()
        self._perform(self.feed.start(self.now))
        self._perform(self.feed.connected(self.now))

    def publish(self, lost: bool) -> None:
        number = self._life * LIFE + self._seq
        sent = self._seq, msgspec.msgpack.encode([float(number), [], 0])
        self._buffer.append(sent)
        self._seq += 1
        if not lost:
            self._live.append(sent)

    def restart(self) -> None:
        self._life += 1
        self._seq = 0
        self._buffer.clear()
        self._answer.clear()
        self._live.clear()
        self._perform(self.feed.connected(self.now))

    def hear(self) -> None:
        if self._live:
            self._perform(self.feed.live(*self._live.popleft(), self.now))

    def answer(self) -> None:
        if self._answer:
            sent = self._answer.popleft()
            replayed = self.feed.replay_ended(self.now) if sent is None else self.feed.replayed(*sent, self.now)
            self._perform(replayed)

    def wait(self) -> None:
        self.now += 6.0
        self._perform(self.feed.tick(self.now))

    def settle(self) -> None:
        """All that is under way arrives, then there is silence."""
        for _ in range(100):
            while self._live or self._answer:
                self.hear()
                self.answer()
            self.wait()

    def is_one_run(self) -> bool:
        return self.booked == list(range(self.booked[0], self.booked[-1] + 1)) if self.booked else True

    def published(self) -> list[int]:
        """What the engine still could tell, all lives' numbers unique."""
        return [self._life * LIFE + seq for seq, _ in self._buffer]

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Apply(batch):
                    self.booked.append(int(batch.ts))
                case Clear():
                    self.booked.clear()
                case Ask(start):
                    self._answer = deque([*(sent for sent in self._buffer if sent[0] >= start), None])


steps = st.sampled_from(["publish", "publish", "lose", "hear", "hear", "answer", "answer", "wait", "restart"])


@settings(max_examples=500)
@given(st.lists(steps, max_size=80), st.sampled_from([0, 2, 100]))
def test_what_is_booked_is_one_unbroken_run_up_to_the_last_message(history: list[str], buffer: int) -> None:
    world = World(buffer)
    for step in history:
        match step:
            case "publish" | "lose":
                world.publish(lost=step == "lose")
            case "hear":
                world.hear()
            case "answer":
                world.answer()
            case "wait":
                world.wait()
            case _:
                world.restart()
        assert world.is_one_run()
    world.settle()
    assert world.is_one_run()
    if buffer:
        assert world.booked[-buffer:] == world.published()
