"""The gateway as a user starts it: a process with a config file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

READY_DEADLINE = 120.0
STOP_DEADLINE = 15.0


@dataclass(slots=True)
class GatewayServer:
    """`kvgate serve --config FILE` on 127.0.0.1. A context manager: entering waits for /readyz, leaving stops it."""

    port: int
    settings: Mapping[str, Any]
    """the config file's content without `listen`"""
    folder: Path
    admin: httpx.Client = field(init=False)
    """for what the gateway answers itself; open while it runs"""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "gateway.log"

    def __enter__(self) -> Self:
        config = self.folder / "kvgate.yaml"
        config.write_text(yaml.safe_dump({"listen": {"host": "127.0.0.1", "port": self.port}, **self.settings}))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "serve", "--config", str(config)],
                env=os.environ | {"HF_HUB_OFFLINE": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.admin = httpx.Client(base_url=self.url, timeout=5.0)
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

    def kill(self) -> None:
        """It dies at once."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """It hangs: connections stay and nothing moves."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def metric(self, name: str, **labels: str) -> float:
        """The sum over a metric's series; see `series`."""
        return sum(self.series(name, **labels))

    def series(self, name: str, **labels: str) -> list[float]:
        """The values of all series of a metric that carry these labels; empty if there are none."""
        values = []
        for line in self.admin.get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            bare, _, carried = series.partition("{")
            if bare == name and all(f'{key}="{text}"' in carried for key, text in labels.items()):
                values.append(float(value))
        return values

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_DEADLINE
        said = "no answer"
        while time.monotonic() < deadline and process.poll() is None:
            try:
                answer = self.admin.get("/readyz")
            except httpx.TransportError:
                pass
            else:
                if answer.is_success:
                    return
                said = answer.text
            time.sleep(0.1)
        log = "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])
        raise RuntimeError(f"the gateway is not ready; /readyz: {said}; log:\n{log}")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self.admin.close()
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
