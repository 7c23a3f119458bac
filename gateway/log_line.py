"""A request's line: what there is to tell of it, encoded once, as the log writes it and the page keeps it."""

from collections.abc import Callable, Sequence

import msgspec

from gateway.log import Times
from gateway.relay.record import Ended, Record

Taker = Callable[[Record, bytes], None]
"""Gets each record and its line, as JSON without a line feed; must be quick and must not raise."""


class LogLine(msgspec.Struct, gc=False):
    """Never text, tokens or keys. Times but the first are seconds, to the microsecond."""

    time: str
    level: str
    logger: str
    id: str
    model: str
    tenant: str
    path: str
    replica: str
    engine: int
    policy: str
    outcome: str
    status: int
    prompt: int | None
    completion: int | None
    cached: int | None
    predicted: int | None
    overhead: float
    ttft: float | None
    itl: float | None
    duration: float
    reason: str


class LogLines:
    """Makes each request's line when it ends: what is kept then is one piece of bytes, and all else is gone early.

    What requests leave behind piece by piece would lie between what the next ones need, and cost them more than a line.
    """

    def __init__(self, takers: Sequence[Taker]) -> None:
        self._takers = takers
        self._times = Times()
        self._encode = msgspec.json.Encoder().encode
        self.listeners: Sequence[Callable[[Ended], None]] = [self.ended] if takers else []
        """for `Accounts`"""

    def ended(self, ended: Ended) -> None:
        """A request is over."""
        record = ended.record
        decision, usage, ttft, itl = record.decision, record.usage, record.ttft, record.itl
        replica, rank = decision.engine
        line = LogLine(
            self._times.text(record.at), "INFO", "kvgate.request", record.id, record.model, record.tenant, record.path,
            replica, rank, decision.policy, record.how, record.status,
            usage.prompt_tokens if usage is not None else None,
            usage.completion_tokens if usage is not None else None,
            usage.cached_tokens if usage is not None else None,
            decision.cached_tokens,
            int(record.overhead * 1e6 + 0.5) / 1e6,  # `round` takes ten times as long
            None if ttft is None else int(ttft * 1e6 + 0.5) / 1e6,
            None if itl is None else int(itl * 1e6 + 0.5) / 1e6,
            int(record.duration * 1e6 + 0.5) / 1e6,
            decision.reason,
        )  # fmt: skip
        encoded = self._encode(line)
        for take in self._takers:
            take(record, encoded)


def unanswered(
    at: str, id: str, model: str, tenant: str, path: str, how: str, status: int, duration: float, reason: str
) -> bytes:
    """The line of a request that the gateway refused or answered itself, or whose client left before a replica did.

    at: by `Times`. how: the metric's `outcome`. status: 0 where nobody was there to get one.
    reason: what it was refused for, or why no replica was asked.
    """
    return msgspec.json.encode(
        LogLine(
            at, "INFO", "kvgate.request", id, model, tenant, path, "", 0, "", how, status,
            None, None, None, None, 0.0, None, None, round(duration, 6), reason,
        )
    )  # fmt: skip


_DECODER = msgspec.json.Decoder(LogLine)


def read(line: bytes) -> LogLine:
    """What a line says."""
    return _DECODER.decode(line)


def is_of(id: str, line: bytes) -> bool:
    """Whether it is the line of a request of this id. Inside a text JSON would have escaped the quotes."""
    return b'"id":' + msgspec.json.encode(id) in line
