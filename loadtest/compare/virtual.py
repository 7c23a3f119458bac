"""One slice through one policy, in virtual time: the real router and the real caches, no sockets, no waiting."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from random import Random

from loadtest.compare.outcome import Asked, Outcome
from loadtest.compare.plan import Fleet, Slice, Trouble
from loadtest.traces.spell import Numbers
from loadtest.traces.trace import Trace
from loadtest.virtual.door import MODEL, Door
from loadtest.virtual.peers import PEERS
from loadtest.virtual.run import Run
from loadtest.virtual.site import Site
from loadtest.virtual.workload import Answered, Ask
from routing import cost
from routing.policies import POLICIES

NAMES = {**POLICIES, **PEERS}
"""policies that can be played"""
PARTS = 24
"""of the time, to show how load spreads"""
NO_TROUBLE = Trouble()


class Played:
    """A trace as a workload: what follows an answer waits for it."""

    def __init__(self, trace: Trace, answered: Callable[[], None]) -> None:
        self._trace = trace
        self._numbers = Numbers(trace)
        self._answered = answered
        self._following: dict[int, list[int]] = {}
        for number, request in enumerate(trace.requests):
            if request.follows is not None:
                self._following.setdefault(request.follows, []).append(number)

    def start(self) -> Iterator[Ask]:
        """Those that follow none."""
        for number, request in enumerate(self._trace.requests):
            if request.follows is None:
                yield self._ask(number, request.arrival)

    def follow(self, answered: Answered, now: float) -> Sequence[Ask]:
        """Those that follow this one, after their pause."""
        self._answered()
        later = self._following.pop(answered.ask.thread, ())
        return [self._ask(number, now + self._trace.requests[number].pause) for number in later]

    def _ask(self, number: int, at: float) -> Ask:
        request = self._trace.requests[number]
        output = array("I", [0]) * request.output_tokens
        return Ask(at, self._numbers.tokens(request), output, thread=number)


def play(
    slice: Slice, fleet: Fleet, policy: str, answered: Callable[[], None], trouble: Trouble = NO_TROUBLE
) -> Outcome:
    """From empty caches. policy: a name in `NAMES`. answered: called after each request."""
    profiles = [fleet.profile] * (fleet.replicas - fleet.slow) + [fleet.profile.scaled(2.0)] * fleet.slow
    sites = [Site(profile, fleet.blocks, fleet.block_size, model=MODEL) for profile in profiles]
    door = Door(
        NAMES[policy],
        cost.PROFILES[fleet.profile.name],
        fleet.replicas,
        fleet.blocks,
        fleet.block_size,
        Random(slice.seed),
    )
    played = Played(slice.trace, answered)
    run = Run(sites, [door], event_lag=trouble.event_lag, event_loss=trouble.event_loss, random=Random(slice.seed))
    if trouble.restart:
        run.at(0.5 * slice.trace.seconds, lambda: run.kill(0))
        run.at(0.6 * slice.trace.seconds, lambda: run.join(0))
    ended = [one for one in run.play(played) if one.ask.thread >= slice.warm_up]
    ended.sort(key=lambda one: one.ask.thread)
    asked = [Asked(one.ask.thread, len(one.ask.prompt), one.cached, one.ttft, one.itl) for one in ended]
    return Outcome(policy, slice.load, slice.seed, asked, _computed(ended, fleet.replicas))


def _computed(ended: Sequence[Answered], replicas: int) -> list[list[int]]:
    first = min((one.ask.at for one in ended), default=0.0)
    last = max((one.ask.at + one.ttft for one in ended), default=0.0)
    parts = [[0] * replicas for _ in range(PARTS)]
    for one in ended:
        at = (one.ask.at + one.ttft - first) / (last - first or 1.0)
        parts[min(PARTS - 1, int(PARTS * at))][one.replica] += len(one.ask.prompt) - one.cached
    return parts
