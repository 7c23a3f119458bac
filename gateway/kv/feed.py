"""One engine's stream of numbered messages: which to apply, what to ask for again, when to give up.

No input or output: whoever carries the messages calls a method for each thing that happens and carries out the actions
that it returns, in order. Two states:

    following   all messages before `next` are applied
    replaying   a replay was asked for and live messages wait, a bounded number and a bounded time

    what happens                         what follows
    -----------------------------------  -----------------------------------------------------------------------------
    start, with replay                   replaying from 0: an idle engine says nothing by itself
    live: the next number                apply
    live: a higher number                gap. Replaying, from the last applied message on
    live: not higher than the last live  restart. Clear, replaying from 0
    connected again                      replaying, from the last applied message on
    replay: the last applied message     proof that the engine is still the same process; apply what follows
    replay: another message there        restart, although the numbers fit. Clear, replaying from 0
    replay: nothing                      restart, it has not come so far yet. Clear, replaying from 0
    replay: a later number than asked    lost for good: it fell out of the engine's buffer. Clear, apply from there on
    replay: end                          what waited is taken as if it came now
    no answer in time, too many waiting  clear, go on with what waited
    a gap that a replay did not close    clear, go on behind it
    a message that can't be read         clear, go on behind it: what it removed is unknown
    silence after the last message       once: check by a replay that it was the last. A failed check changes nothing;
                                         the next number arriving makes it needless

Without a replay endpoint a gap, and a new connection too, clears. Clearing loses what is known and never keeps what is
wrong.
"""

from collections import deque
from collections.abc import Sequence

from gateway.kv.actions import Action, Apply, Ask, Clear, FeedCounters
from gateway.kv.wire import WireError, decode


class Feed:
    """The state of one stream.

    replayable: the engine has a replay endpoint.
    patience: seconds without a message of the answer after which a replay has failed.
    quiet: seconds of silence after which the stream is checked.
    room: live messages that may wait for a replay.
    """

    def __init__(self, *, replayable: bool, patience: float = 5.0, quiet: float = 5.0, room: int = 4096) -> None:
        self._replayable = replayable
        self._patience = patience
        self._quiet = quiet
        self._room = room
        self.counters = FeedCounters()
        self._next: int | None = 0 if replayable else None
        """number of the next message to apply; None: whichever comes"""
        self._last_payload: bytes | None = None
        """the message before `next`, if it was applied"""
        self._last_live: int | None = None
        self._blank = True
        """nothing was applied since the last clear"""
        self._connections = 0
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._deadline: float | None = None
        self._check_at: float | None = None
        self._in_doubt = False
        """what was applied must go if the running replay fails"""
        self._proven = True
        """the running replay needs no proof that the engine is the same, or gave it"""
        self._sought: int | None = None
        """the message in front of which the last gap was"""

    @property
    def replaying(self) -> bool:
        """Whether the answer to a request is awaited."""
        return self._deadline is not None

    def start(self, now: float) -> Sequence[Action]:
        """To be called once, first."""
        actions: list[Action] = []
        if self._replayable:
            self._ask(now, actions)
        return actions

    def connected(self, now: float) -> Sequence[Action]:
        """A connection for live messages was made; what was published before may be lost."""
        self._connections += 1
        self._listen(now)
        actions: list[Action] = []
        if not self._replayable:
            if self._connections > 1:
                self._lose_place(actions)
                self._last_live = None
        elif self._connections > 1 or not self.replaying:
            self._ask(now, actions)
        return actions

    def live(self, seq: int, payload: bytes, now: float) -> Sequence[Action]:
        """A message came as published."""
        actions: list[Action] = []
        went_back = self._last_live is not None and seq <= self._last_live
        self._last_live = seq
        self._listen(now)
        if went_back:
            self._waiting.clear()
            self._restart(now, actions)
        elif self.replaying and not self._in_doubt and seq == self._next:
            self._end_replay()
        self._waiting.append((seq, payload))
        if self.replaying and len(self._waiting) > self._room:
            self._give_up(actions)
        self._drain(now, actions)
        return actions

    def replayed(self, seq: int, payload: bytes, now: float) -> Sequence[Action]:
        """A message of the answer to the last request came."""
        actions: list[Action] = []
        if not self.replaying:
            return actions
        self._deadline = now + self._patience
        if not self._proven and self._next is not None and seq >= self._next - 1:
            self._proven = True
            if seq == self._next - 1 and payload != self._last_payload:
                self._restart(now, actions)
                return actions
        if self._next is None or seq >= self._next:
            if seq != self._next:
                self._clear(actions)
            self._apply(seq, payload, now, actions)
        return actions

    def replay_ended(self, now: float) -> Sequence[Action]:
        """The answer to the last request is complete."""
        actions: list[Action] = []
        if not self.replaying:
            return actions
        if not self._proven:
            self._restart(now, actions)
            return actions
        self._end_replay()
        self._drain(now, actions)
        return actions

    def tick(self, now: float) -> Sequence[Action]:
        """Time passed."""
        actions: list[Action] = []
        if self._deadline is not None and now >= self._deadline:
            self._give_up(actions)
            self._drain(now, actions)
        elif self._deadline is None and self._check_at is not None and now >= self._check_at:
            self._check_at = None
            self.counters.checks += 1
            self._request(now, actions)
        return actions

    def _listen(self, now: float) -> None:
        if self._replayable:
            self._check_at = now + self._quiet

    def _drain(self, now: float, actions: list[Action]) -> None:
        while self._waiting and not self.replaying:
            seq, payload = self._waiting.popleft()
            if self._next is None or seq == self._next:
                self._apply(seq, payload, now, actions)
            elif seq < self._next:
                if self._is_newer(payload):
                    self._restart(now, actions)
                    self._waiting.appendleft((seq, payload))
            else:
                self._bridge(seq, payload, now, actions)

    def _bridge(self, seq: int, payload: bytes, now: float, actions: list[Action]) -> None:
        """Messages before `seq` are missing."""
        if self._replayable and seq != self._sought:
            self.counters.gaps += 1
            self._sought = seq
            self._waiting.appendleft((seq, payload))
            self._ask(now, actions)
            return
        if not self._replayable:
            self.counters.gaps += 1
        self._clear(actions)
        self._apply(seq, payload, now, actions)

    def _is_newer(self, payload: bytes) -> bool:
        """Whether a message with a number already passed was made after the last one applied.

        It is not if a replay brought it before the live connection did.
        """
        try:
            return decode(payload).ts > (self.counters.last_ts or 0.0)
        except WireError:
            return False

    def _apply(self, seq: int, payload: bytes, now: float, actions: list[Action]) -> None:
        counters = self.counters
        self._next, self._last_payload = seq + 1, payload
        counters.last_seq, counters.applied_at = seq, now
        try:
            batch = decode(payload)
        except WireError:
            counters.unreadable += 1
            self._clear(actions)
            return
        self._blank = False
        counters.last_ts = batch.ts
        actions.append(Apply(batch))

    def _ask(self, now: float, actions: list[Action]) -> None:
        self.counters.replays += 1
        self._in_doubt = True
        self._request(now, actions)

    def _request(self, now: float, actions: list[Action]) -> None:
        self._proven = self._last_payload is None
        self._deadline = now + self._patience
        start = self._next or 0
        actions.append(Ask(start if self._proven else start - 1))

    def _restart(self, now: float, actions: list[Action]) -> None:
        self.counters.restarts += 1
        self._lose_place(actions)
        self.counters.last_seq = self.counters.last_ts = None
        if self._replayable:
            self._next = 0
            self._ask(now, actions)

    def _give_up(self, actions: list[Action]) -> None:
        self.counters.failed_replays += 1
        if self._in_doubt:
            self._lose_place(actions)
        self._end_replay()

    def _end_replay(self) -> None:
        self._deadline = None
        self._in_doubt = False

    def _lose_place(self, actions: list[Action]) -> None:
        self._clear(actions)
        self._next = self._last_payload = self._sought = None

    def _clear(self, actions: list[Action]) -> None:
        if not self._blank:
            self._blank = True
            self.counters.clears += 1
            actions.append(Clear())
