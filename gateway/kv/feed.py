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
    nothing of an answer for a while     ask again: a request to a process that was about to end is lost
    no answer in time, too many waiting  clear, go on with what waited; later ask for everything once more, and if an
                                         answer begins, clear and rebuild from it
    a gap stays; an unreadable message   clear, go on behind it: what was removed is unknown
    rebuild                              clear, replaying from 0
    silence                              check by a replay, less and less often; a failed check changes nothing

Without a replay endpoint a gap, and a new connection too, clears: knowing less is slow, knowing wrong is harmful.
"""

from collections import deque
from collections.abc import Sequence

from gateway.kv.actions import Action, Ask, Clear, FeedCounters
from gateway.kv.place import Place
from gateway.kv.position import Position, proof
from gateway.kv.replay import Replay

_SLOWEST_RETRY = 300.0
_SLOWEST_CHECK = 60.0


class Feed:
    """The state of one stream.

    replayable: the engine has a replay endpoint.
    patience: seconds without a message of the answer after which a replay has failed.
    quiet: seconds of silence until a check, and from a failed replay to the next attempt; doubled each time.
    room: live messages that may wait for a replay.
    kept: how far another process has followed the stream; with a replay endpoint only.
    """

    def __init__(
        self, *, replayable: bool, patience: float = 5.0, quiet: float = 2.0, room: int = 4096,
        kept: Position | None = None,
    ) -> None:  # fmt: skip
        self._replayable = replayable
        self._patience = patience
        self._quiet = quiet
        self._room = room
        self.counters = FeedCounters()
        self._place = Place(self.counters, 0 if replayable else None, kept)
        self._last_live: int | None = None
        self._connections = 0
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._request: Replay | None = None
        self._sought: int | None = None  # the message in front of which the last gap was
        self._check_at: float | None = None
        self._check_in = quiet
        self._retry_at: float | None = None
        self._retry_in = quiet

    @property
    def replaying(self) -> bool:
        """Whether the answer to a request is awaited."""
        return self._request is not None

    @property
    def settled(self) -> bool:
        """Whether no replay decides about what is booked."""
        return self._request is None or not (self._request.in_doubt or self._request.afresh)

    @property
    def position(self) -> Position | None:
        return self._place.position

    def start(self, now: float) -> Sequence[Action]:
        """To be called once, first."""
        actions: list[Action] = []
        self._begin(now, actions)
        return actions

    def connected(self, now: float) -> Sequence[Action]:
        """A connection for live messages was made; what was published before may be lost."""
        self._connections += 1
        self._listen(now)
        actions: list[Action] = []
        if not self._replayable:
            if self._connections > 1:
                self._place.lose(actions)
                self._last_live = None
        elif self._connections > 1 or not self.replaying:
            # What waits came through the old connection, perhaps from another process; the replay has it if not.
            self._waiting.clear()
            self._ask(now, actions)
        return actions

    def live(self, seq: int, payload: bytes, now: float) -> Sequence[Action]:
        """A message came as published."""
        actions: list[Action] = []
        went_back = self._last_live is not None and seq <= self._last_live
        self._last_live = self.counters.heard_seq = seq
        self._listen(now)
        if went_back:
            self._waiting.clear()
            self._restart(now, actions)
        elif self._request and not self._request.in_doubt and not self._request.afresh and seq == self._place.next:
            self._request = None
        self._waiting.append((seq, payload))
        if self._request and len(self._waiting) > self._room:
            self._give_up(self._request, now, actions)
        self._drain(now, actions)
        return actions

    def replayed(self, seq: int, payload: bytes, now: float) -> Sequence[Action]:
        """A message of the answer to the last request came."""
        actions: list[Action] = []
        request = self._request
        if request is None:
            return actions
        request.deadline, request.answered = now + self._patience, True
        if request.afresh:
            self._place.lose(actions)
            request.afresh, request.in_doubt = False, True
        place = self._place
        if request.proof is not None and place.next is not None and seq >= place.next - 1:
            if seq == place.next - 1 and proof(payload) != request.proof:
                self._restart(now, actions)
                return actions
            request.proof = None
        if place.next is None or seq >= place.next:
            if seq != place.next:
                place.clear(actions)
            place.apply(seq, payload, now, actions)
        return actions

    def replay_ended(self, now: float) -> Sequence[Action]:
        """The answer to the last request is complete."""
        actions: list[Action] = []
        if self._request is None:
            return actions
        if self._request.proof is not None:
            self._restart(now, actions)
            return actions
        self._request = None
        self._retry_in = self._quiet
        self.counters.confirmed_at = now
        self._drain(now, actions)
        return actions

    def rebuild(self, now: float) -> Sequence[Action]:
        """What is booked is wrong, although nothing is missing."""
        self.counters.rebuilds += 1
        actions: list[Action] = [Clear()]
        self._waiting.clear()
        self._place.lose([])
        self._begin(now, actions)
        return actions

    def tick(self, now: float) -> Sequence[Action]:
        """Time passed."""
        actions: list[Action] = []
        if self._request:
            if now >= self._request.deadline:
                self._give_up(self._request, now, actions)
                self._drain(now, actions)
            elif self._request.must_ask_again(now):
                actions.append(Ask(self._request.start))
        elif self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self.counters.replays += 1
            self._request = Replay(0, now, now + self._patience, in_doubt=False, afresh=True)
            actions.append(Ask(0))
        elif self._check_at is not None and now >= self._check_at:
            self._check_in = min(2 * self._check_in, _SLOWEST_CHECK)
            self._check_at = now + self._check_in
            self.counters.checks += 1
            self._ask_on(now, actions, in_doubt=False)
        return actions

    def _listen(self, now: float) -> None:
        if self._replayable:
            self._check_in = self._quiet
            self._check_at = now + self._quiet

    def _drain(self, now: float, actions: list[Action]) -> None:
        place = self._place
        while self._waiting and not self._request:
            seq, payload = self._waiting.popleft()
            if place.next is None or seq == place.next:
                place.apply(seq, payload, now, actions)
            elif seq < place.next:
                if place.is_before(payload):
                    self._waiting.appendleft((seq, payload))
                    self._restart(now, actions)
            else:
                self._bridge(seq, payload, now, actions)

    def _bridge(self, seq: int, payload: bytes, now: float, actions: list[Action]) -> None:
        """Messages before `seq` are missing."""
        if seq != self._sought:
            self.counters.gaps += 1
            self._sought = seq
            if self._replayable:
                self._waiting.appendleft((seq, payload))
                self._ask(now, actions)
                return
        self._place.clear(actions)
        self._place.apply(seq, payload, now, actions)

    def _ask(self, now: float, actions: list[Action]) -> None:
        self.counters.replays += 1
        self._ask_on(now, actions, in_doubt=True)

    def _ask_on(self, now: float, actions: list[Action], *, in_doubt: bool) -> None:
        """Ask for what follows the last applied message, and for that one as a proof."""
        last = self._place.last_proof
        start = (self._place.next or 0) - (last is not None)
        self._request = Replay(start, now, now + self._patience, in_doubt, last)
        actions.append(Ask(start))

    def _restart(self, now: float, actions: list[Action]) -> None:
        self.counters.restarts += 1
        self._place.lose(actions)
        self._begin(now, actions)

    def _begin(self, now: float, actions: list[Action]) -> None:
        self._sought = self._retry_at = None
        if self._replayable:
            self._place.next = self._place.next or 0
            self._ask(now, actions)

    def _give_up(self, request: Replay, now: float, actions: list[Action]) -> None:
        self.counters.failed_replays += 1
        self._request = None
        if request.in_doubt:
            self._place.lose(actions)
        if request.in_doubt or request.afresh:
            self._retry_at = now + self._retry_in
            self._retry_in = min(2 * self._retry_in, _SLOWEST_RETRY)
