"""The traffic log: one JSON line for each prompt that was read, for `kvgate report`. Never text, tokens or keys.

A block goes by a salted name of 48 bits that tells nothing but whether two prompts begin alike, and one name stands for
several blocks. Writing is done in a thread of its own; what it can't keep up with is dropped and counted.
"""

import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Event, Thread

import msgspec
from prometheus_client import CollectorRegistry, Counter

from gateway.config import TrafficLogConfig
from gateway.relay.record import Ended, Record
from routing.decision import Prompt
from routing.types import BlockHash

logger = logging.getLogger(__name__)

PENDING = 1000
"""lines that may wait to be written"""
_GATHER = 0.05
"""seconds over which lines are gathered; five thousand a second fill a quarter of the room"""
_NAME_BYTES = 6
_KEY_BYTES = 64


class _Line(msgspec.Struct, gc=False):
    """What is written of one prompt."""

    t: float
    """arrival, seconds since the epoch"""
    model: str
    prompt: int
    """tokens"""
    block: int
    """tokens that each name stands for"""
    names: list[int]
    """of the prompt's beginnings: the first `block` tokens, the first two times `block`, and so on"""
    output: int | None
    """tokens of the answer; null where the engine does not tell"""
    cached: int | None
    """tokens, as the engine reports them"""
    predicted: int | None
    tenant: str
    """whose key it came with; "" where no keys are asked for"""
    replica: str
    rank: int
    policy: str
    status: int
    outcome: str
    ttft: float | None
    """seconds, as are the next"""
    predicted_ttft: float
    seconds: float


class TrafficLog:
    """Writes, and puts aside what grows too large. Raises OSError if the file can't be opened."""

    def __init__(self, config: TrafficLogConfig, registry: CollectorRegistry) -> None:
        self._config = config
        salt = config.salt.encode() or secrets.token_bytes(_KEY_BYTES)
        self._key = blake2b(salt, digest_size=_KEY_BYTES).digest()
        self._file = config.path.open("ab")
        self._written = self._file.tell()
        self._waiting: deque[tuple[Record, Prompt]] = deque()
        self._wake = Event()
        self._closing = False
        self._lines = Counter("kvgate_traffic_log_lines", "Lines of the traffic log", ["outcome"], registry=registry)
        self._thread = Thread(target=self._write_all, name="traffic-log", daemon=True)
        self._thread.start()

    def add(self, ended: Ended) -> None:
        """A request is over. Belongs to the event loop."""
        for prompt in ended.inbound.prompts:
            if len(self._waiting) >= PENDING:
                self._lines.labels("dropped").inc()
                continue
            self._waiting.append((ended.record, prompt))
            if not self._wake.is_set():
                self._wake.set()

    def files(self) -> Sequence[Path]:
        """Those that are there, oldest first."""
        path = self._config.path
        aside = [_aside(path, number) for number in range(self._config.files - 1, 0, -1)]
        return [file for file in (*aside, path) if file.exists()]

    def close(self) -> None:
        """Write what waits."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # told when it could not be written
            self._file.close()

    def _write_all(self) -> None:
        """The thread: some lines at a time, or waking it for each would cost the loop more than the line does."""
        while not self._closing:
            self._wake.wait()
            if not self._closing:
                time.sleep(_GATHER)
            self._wake.clear()
            self._write(len(self._waiting))
        self._write(len(self._waiting))

    def _write(self, count: int) -> None:
        done = 0
        try:
            while done < count:
                line = msgspec.json.encode(self._line(*self._waiting.popleft())) + b"\n"
                done += 1
                if self._written and self._written + len(line) > self._config.file_bytes:
                    self._put_aside()
                self._file.write(line)
                self._written += len(line)
            self._file.flush()
            self._lines.labels("written").inc(done)
        except (OSError, ValueError) as exc:  # ValueError: of a file that could not be opened again
            self._lines.labels("failed").inc(done)
            logger.warning("traffic log %s: %s", self._config.path, exc)

    def _line(self, record: Record, prompt: Prompt) -> _Line:
        decision, usage, single = record.decision, record.usage, record.single
        # Engines of one model nearly always have blocks of one size; of several the first is as good as any.
        space, blocks = next(iter(prompt.chains.items()))
        return _Line(
            t=round(record.at - record.duration, 3),
            model=record.model,
            prompt=prompt.tokens,
            block=space.block_size * self._config.stride,
            names=self._names(blocks),
            output=usage.completion_tokens if usage else None,
            cached=usage.cached_tokens if usage and single else None,
            predicted=decision.cached_tokens if single else None,
            tenant=record.tenant,
            replica=decision.engine.replica,
            rank=decision.engine.rank,
            policy=decision.policy,
            status=record.status,
            outcome=record.how,
            ttft=None if record.ttft is None else round(record.ttft, 4),
            predicted_ttft=round(decision.prediction.ttft, 4),
            seconds=round(record.duration, 4),
        )

    def _names(self, blocks: Sequence[BlockHash]) -> list[int]:
        stride, key = self._config.stride, self._key
        return [
            int.from_bytes(blake2b(block.to_bytes(8, "little"), key=key, digest_size=_NAME_BYTES).digest())
            for block in blocks[stride - 1 :: stride]
        ]

    def _put_aside(self) -> None:
        """The file becomes `.1`, `.1` becomes `.2` and so on; the last is gone."""
        self._file.close()
        path, aside = self._config.path, self._config.files - 1
        try:
            for number in range(aside, 0, -1):
                younger = path if number == 1 else _aside(path, number - 1)
                with contextlib.suppress(FileNotFoundError):
                    younger.replace(_aside(path, number))
        finally:
            self._file = path.open("ab" if aside else "wb")
            self._written = self._file.tell()


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
