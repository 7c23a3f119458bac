"""A real vLLM replica as a process: started, watched, stopped."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

MODEL = "tiny-qwen3"
BLOCK_SIZE = 32
"""tokens per block; the CPU backend takes multiples of 32"""
CONTEXT = 4096
"""tokens that prompt and answer may have together"""
TOPIC = "kv-events"
BOOT_DEADLINE = 300.0
STOP_DEADLINE = 30.0
_UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # /reset_prefix_cache
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


def free_ports(first: int) -> Iterator[int]:
    """Ports from `first` upwards that nothing listens on; no port twice."""
    for port in range(first, 65536):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a replica listens. Each data-parallel rank adds its number to the last two."""

    http: int
    events: int
    replay: int


@dataclass(slots=True)
class VllmServer:
    """`vllm serve` with KV events, replay and prompt-token details, listening on 127.0.0.1.

    blocks: size of the KV cache per rank; one of them is the null block, so `blocks - 1` are usable.
    A context manager: leaving it stops the process and its children. `start` after `stop` or `kill` restarts it on the
    same ports with an empty cache.
    """

    binaries: Path
    model: Path
    ports: Ports
    log: Path
    blocks: int = 130
    ranks: int = 1
    arguments: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def id(self) -> str:
        return f"127.0.0.1:{self.ports.http}"

    @property
    def url(self) -> str:
        return f"http://{self.id}"

    @property
    def replays(self) -> Sequence[str]:
        """The replay socket of each rank."""
        return [f"tcp://127.0.0.1:{self.ports.replay + rank}" for rank in range(self.ranks)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process in a group of its own; it is not ready yet."""
        if self._process:
            raise RuntimeError(f"{self.id} runs already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(argument) for argument in self._command()],
                env=os.environ | _ENVIRONMENT,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Return when /health answers 200. Raises RuntimeError with the end of the log if it does not come to that."""
        deadline = time.monotonic() + BOOT_DEADLINE
        with httpx.Client(base_url=self.url, timeout=5.0) as client:
            while time.monotonic() < deadline:
                if self._process is None or self._process.poll() is not None:
                    raise RuntimeError(f"{self.id} ended while starting:\n{self.last_words()}")
                with suppress(httpx.TransportError):
                    if client.get("/health").is_success:
                        return
                time.sleep(0.25)
        raise RuntimeError(f"{self.id} was not ready after {BOOT_DEADLINE:.0f} s:\n{self.last_words()}")

    def stop(self) -> None:
        """End the process as an operator does (SIGTERM), with force after a while."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as a crash does (SIGKILL to its whole group)."""
        self._end(signal.SIGKILL)

    def last_words(self, lines: int = 60) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _signal_group(process.pid, by)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_DEADLINE)
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()

    def _command(self) -> Sequence[object]:
        events = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{self.ports.events}",
            "replay_endpoint": f"tcp://127.0.0.1:{self.ports.replay}",
            "topic": TOPIC,
        }
        parallel = ("--data-parallel-size", self.ranks) if self.ranks > 1 else ()
        return [
            self.binaries / "vllm", "serve", self.model, "--served-model-name", MODEL,
            "--host", "127.0.0.1", "--port", self.ports.http,
            "--dtype", "bfloat16", "--enforce-eager", "--max-model-len", CONTEXT, "--max-num-seqs", 16,
            "--block-size", BLOCK_SIZE, "--num-gpu-blocks-override", self.blocks,
            "--enable-prefix-caching", "--prefix-caching-hash-algo", "sha256_cbor",
            "--kv-events-config", json.dumps(events), "--enable-prompt-tokens-details",
            "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
            "--distributed-executor-backend", _UNIPROC, *parallel, *self.arguments,
        ]  # fmt: skip


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def boot(servers: Sequence[VllmServer]) -> None:
    """Start them and wait until they are ready. A boot takes a minute of one core, so they boot side by side."""
    for server in servers:
        server.start()
    for server in servers:
        server.wait_until_ready()
