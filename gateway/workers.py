"""Several processes that serve one port: started, started again when they die, stopped together."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence

from gateway import log
from gateway.config import Config

logger = logging.getLogger(__name__)

_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
"""seconds until a worker that died is started again; doubled each time it does not last as long"""
_KILL_AFTER = 5.0
"""seconds beyond `listen.drain_delay` and `limits.drain` that a worker gets to end"""


def listen_with_others(host: str, port: int) -> socket.socket:
    """A socket whose port others of this kind may have too; the system spreads connections over those that listen.

    Raises OSError where the address can't be had.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def of_worker(config: Config, worker: int) -> Config:
    """A worker's settings: clients find it with the others; operators find it alone, for its metrics are its own, as is
    the file of its traffic log (`traffic.jsonl` -> `traffic-0.jsonl`).
    """
    listen, log_of_all = config.listen, config.traffic_log
    first = listen.port + 1 if listen.admin_port is None else listen.admin_port
    own: dict[str, object] = {"listen": listen.model_copy(update={"admin_port": first + worker})}
    if log_of_all:
        path = log_of_all.path
        own["traffic_log"] = log_of_all.model_copy(update={"path": path.with_stem(f"{path.stem}-{worker}")})
    return config.model_copy(update=own)


def supervise(config: Config, count: int, arguments: Sequence[str]) -> int:
    """Run workers until SIGTERM or SIGINT, which they get too, as they get SIGHUP.

    arguments: of the command line; each worker gets its number behind them. Returns the exit status.
    """
    log.configure(config.log_level, config.log_format)
    try:
        # Never listens; keeps anybody else from the port while workers come and go.
        reserved = listen_with_others(config.listen.host, config.listen.port)
    except OSError as exc:
        print(f"{config.listen.host}:{config.listen.port}: {exc.strerror}", file=sys.stderr)
        return 1
    with reserved:
        asyncio.run(_Supervisor(config, arguments).run(count))
    return 0


class _Supervisor:
    def __init__(self, config: Config, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._patience = config.listen.drain_delay + config.limits.drain + _KILL_AFTER
        self._stopping = asyncio.Event()
        self._running: dict[int, asyncio.subprocess.Process] = {}

    async def run(self, count: int) -> None:
        """Until told to stop and all have ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._signal, signal.SIGHUP)
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep(number)) for number in range(count)]
            await self._stopping.wait()
            self._signal(signal.SIGTERM)
            _, late = await asyncio.wait(keepers, timeout=self._patience)
            if late:
                logger.error("%d worker(s) did not end in time", len(late))
                self._signal(signal.SIGKILL)

    async def _keep(self, number: int) -> None:
        """Have this worker run."""
        loop = asyncio.get_running_loop()
        pause = _PAUSE
        while not self._stopping.is_set():
            started = loop.time()
            command = [sys.executable, "-m", "gateway", *self._arguments, "--worker", str(number)]
            worker = self._running[number] = await asyncio.create_subprocess_exec(*command)
            logger.info("worker %d is process %d", number, worker.pid)
            if self._stopping.is_set():
                worker.terminate()
            status = await worker.wait()
            del self._running[number]
            if self._stopping.is_set():
                return
            pause = _PAUSE if loop.time() - started > _LONGEST_PAUSE else min(2 * pause, _LONGEST_PAUSE)
            logger.error("worker %d ended with status %d; another is started in %.0f s", number, status, pause)
            try:
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    def _signal(self, number: signal.Signals) -> None:
        for worker in self._running.values():
            worker.send_signal(number)
