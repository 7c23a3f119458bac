"""Coding agents' sessions (kv-cache-tester): one session a line, prompts as runs of ids that are the session's own.

A session is a closed loop: each request is sent when its tools, or its user, have dealt with the answer before.
"""

import gzip
from itertools import islice
from pathlib import Path

import msgspec

from loadtest.traces.trace import Runs, Trace, TraceError, TraceRequest

_IDS_PER_SESSION = 1 << 32


class _Call(msgspec.Struct, gc=False):
    """A request; or a sub-agent, whose own requests are not part of the session's loop and have no `rle`."""

    t: float
    """seconds after the session's start"""
    input: int = msgspec.field(name="in", default=0)
    out: int = 0
    think: float | None = None
    """seconds since the answer before"""
    rle: list[tuple[int, int]] | None = None
    """first id and how many, for each run"""


class _Session(msgspec.Struct, gc=False):
    block_size: int
    requests: list[_Call]


def load(path: Path, sessions: int | None = None) -> Trace:
    """Requests in order of arrival. Those without output get one token of it.

    All sessions begin together: the recording tells only what is within a session.
    sessions: only the first so many; None for all.
    Raises OSError or TraceError.
    """
    decoder = msgspec.json.Decoder(_Session)
    timed: list[tuple[float, int, int, TraceRequest]] = []
    block_size = 0
    with gzip.open(path) as lines:
        for number, line in enumerate(islice(lines, sessions)):
            try:
                session = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise TraceError(f"{path}:{number + 1}: {error}") from error
            if block_size not in (0, session.block_size):
                raise TraceError(f"{path}:{number + 1}: blocks of {session.block_size} tokens after {block_size}")
            block_size = session.block_size
            calls = [call for call in session.requests if call.rle is not None]
            for turn, call in enumerate(calls):
                request = _request(call, number * _IDS_PER_SESSION)
                timed.append((request.arrival, number, turn, request))
    return Trace(path.name, block_size, _linked(timed))


def _request(call: _Call, ids: int) -> TraceRequest:
    blocks = Runs([range(ids + first, ids + first + count) for first, count in call.rle or ()])
    return TraceRequest(call.t, call.input, max(1, call.out), blocks, pause=call.think or 0.0)


def _linked(timed: list[tuple[float, int, int, TraceRequest]]) -> list[TraceRequest]:
    timed.sort(key=lambda one: one[:3])
    last: dict[int, int] = {}
    requests: list[TraceRequest] = []
    for position, (arrival, session, _, one) in enumerate(timed):
        before = last.get(session)
        requests.append(TraceRequest(arrival, one.prompt_tokens, one.output_tokens, one.blocks, before, one.pause))
        last[session] = position
    return requests
