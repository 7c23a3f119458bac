"""The books of forwarded requests."""

import asyncio
from collections.abc import Callable

from endings import candidate, decision, ended

from gateway.metrics import Metrics
from gateway.relay.account import Accounts
from gateway.relay.record import Ended
from gateway.relay.response import Ending, Outcome
from gateway.relay.usage import Usage


class Books:
    """Accounts, and what their listeners heard."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.heard: list[tuple[str, str]] = []
        self.accounts = Accounts(self.metrics, lambda model: True, [self._listener("first"), self._listener("second")])

    def end(self, id: str) -> None:
        """A request of this id ends half a second after its arrival."""
        whole = ended(id=id)
        outcome = Outcome(Ending.COMPLETE, 200, 10, 1.1, None, failed=False, done=True)
        self.accounts.ended(whole.inbound, whole.record.decision, 16, outcome, whole.inbound.arrived, 1.5)

    @property
    def counted(self) -> float | None:
        labels = {"model": "m", "policy": "kv-aware", "replica": "one", "outcome": "complete", "status": "200"}
        return self.metrics.registry.get_sample_value("kvgate_requests_total", labels)

    def _listener(self, name: str) -> Callable[[Ended], None]:
        return lambda ended: self.heard.append((name, ended.inbound.id))


async def test_what_ends_in_one_turn_of_the_loop_is_entered_in_the_next_in_order() -> None:
    books = Books()
    books.end("a")
    books.end("b")
    assert (books.heard, books.counted) == ([], None)
    await asyncio.sleep(0)
    assert books.heard == [("first", "a"), ("first", "b"), ("second", "a"), ("second", "b")]
    assert books.counted == 2
    books.end("c")
    await asyncio.sleep(0)
    assert books.heard[4:] == [("first", "c"), ("second", "c")]
    assert books.counted == 3


async def test_each_prediction_is_compared_with_what_the_engine_found_in_blocks() -> None:
    books = Books()
    for cached in (64, 64, 32, 96):
        chosen = decision(candidate("one", l0=64))
        usage = Usage(prompt_tokens=100, completion_tokens=1, cached_tokens=cached)
        outcome = Outcome(Ending.COMPLETE, 200, 10, 1.1, usage, failed=False, done=True)
        books.accounts.ended(ended(chosen=chosen).inbound, chosen, 16, outcome, 1.0, 1.5)
    books.accounts.settle()

    def sample(name: str, **labels: str) -> float | None:
        where = {"replica": "one", "policy": "kv-aware", **labels}
        return books.metrics.registry.get_sample_value(name, where)

    counted = {outcome: sample("kvgate_predictions_total", outcome=outcome) for outcome in ("exact", "over", "under")}
    assert counted == {"exact": 2, "over": 1, "under": 1}
    error = "kvgate_prediction_error_blocks"
    assert [sample(error + "_bucket", le=bound) for bound in ("-1.0", "0.0", "1.0", "4.0")] == [1, 3, 3, 4]


async def test_nothing_is_lost_and_nothing_counted_twice_where_the_gateway_stops_at_once() -> None:
    books = Books()
    books.end("a")
    books.accounts.settle()
    assert books.counted == 1
    await asyncio.sleep(0)
    assert books.counted == 1
