"""LMCache's server beside a replica, as a process: L1 in memory, L2 in a shared folder."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

CHUNK = 64
"""tokens"""
BOOT_DEADLINE = 120.0
STOP_DEADLINE = 15.0


@dataclass(slots=True)
class LMCacheServer:
    """`lmcache server` on 127.0.0.1. A context manager: entering waits until it answers, leaving stops it."""

    binaries: Path
    port: int
    http_port: int
    prometheus_port: int
    folder: Path
    """its L2"""
    log: Path
    coordinator: str
    """URL to which it reports what it stores"""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def vllm_arguments(self) -> tuple[str, str]:
        """What a replica that uses it is started with."""
        connector = {
            "kv_connector": "LMCacheMPConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": self.port},
        }
        return "--kv-transfer-config", json.dumps(connector)

    def __enter__(self) -> Self:
        # On the CPU a vLLM becomes ready only in this mode.
        mode = ["--supported-transfer-mode", "engine_driven"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self.binaries / "lmcache", "server", "--host", "127.0.0.1", "--port", str(self.port),
                    "--http-host", "127.0.0.1", "--http-port", str(self.http_port),
                    "--prometheus-port", str(self.prometheus_port), "--chunk-size", str(CHUNK),
                    "--l1-size-gb", "0.25", "--eviction-policy", "LRU", *mode,
                    "--l2-adapter", json.dumps({"type": "fs", "base_path": str(self.folder), "shared": True}),
                    "--coordinator-url", self.coordinator, "--coordinator-advertise-ip", "127.0.0.1",
                    "--coordinator-event-reporting",
                ],
                env=os.environ | {"LMCACHE_TRACK_USAGE": "false"},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + BOOT_DEADLINE
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/healthcheck", timeout=5.0).is_success:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"LMCache's server is not ready:\n{self.log.read_text(errors='replace')[-4000:]}")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_DEADLINE)
                return
