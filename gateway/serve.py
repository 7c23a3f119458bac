"""Runs the gateway under uvicorn, and reads its configuration again when told to or when the file changes."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from watchfiles import awatch

from gateway import log
from gateway.app import Gateway
from gateway.application import Application, Beside
from gateway.config import Config, ConfigError, load
from gateway.front import front, operators_front
from gateway.interpreter import settle, share
from gateway.relay.connections import Connections
from gateway.workers import listen_with_others, of_worker

logger = logging.getLogger(__name__)

_REREAD_MS = 5000
"""milliseconds after which the configuration is compared with the file whether or not a change was told of"""

Contents = Mapping[Path, bytes | None]
"""of files, as they were when they were read"""


def serve(config: Config, path: Path | None, complete: Callable[[Config], Config], worker: int | None = None) -> int:
    """Serve until SIGTERM or SIGINT.

    path: the file to read again on SIGHUP and when it changes; complete: puts the command line over what it says.
    worker: which one of several processes on the port this is; operators find it at a port of its own.
    Returns the exit status.
    """
    log.configure(config.log_level, config.log_format)
    share()

    def own(settings: Config) -> Config:
        return settings if worker is None else of_worker(settings, worker)

    config = own(config)
    beside: list[Beside] = [settle_memory]
    if path is not None:
        beside.append(partial(follow, path, config, _contents(path, config), lambda fresh: own(complete(fresh))))
    listen, sockets = config.listen, None
    if worker is not None:
        try:
            sockets = [listen_with_others(listen.host, listen.port)]
        except OSError as exc:
            logger.error("worker %d: %s:%d: %s", worker, listen.host, listen.port, exc.strerror)
            return 1
    if listen.admin_port is not None:
        beside.append(partial(operators_front, listen))
    connections = Connections(
        listen.head_timeout, listen.body_timeout, listen.answer_timeout, listen.connections_per_address
    )
    application = Application(config, connections, beside)
    server = front(application, listen, config.limits, connections)
    server.run(sockets)
    return 0 if server.started else 1


async def settle_memory(gateway: Gateway) -> None:
    """Spare the collector what stays, once the gateway runs."""
    settle()


async def follow(
    path: Path, config: Config, known: Contents, complete: Callable[[Config], Config], gateway: Gateway
) -> None:
    """Give the gateway the file's settings whenever they change; those that can't be used are refused.

    config: the settings that the gateway has. known: what was in the file, and in those that it names, when they were
    read last: that may have changed while the gateway started.
    """
    hangup = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    changes = asyncio.create_task(_watch(path.parent, lambda: _contents(path, config), known, hangup))
    try:
        while True:
            await hangup.wait()
            hangup.clear()
            try:
                config = complete(load(path))
            except ConfigError as exc:
                gateway.metrics.config_reloads.labels("refused").inc()
                logger.error("the changed configuration is refused, the old one stays: %s", exc)
                continue
            gateway.reload(config)
    finally:
        changes.cancel()
        loop.remove_signal_handler(signal.SIGHUP)


async def _watch(folder: Path, read: Callable[[], Contents], known: Contents, changed: asyncio.Event) -> None:
    # The folder, because editors and Kubernetes put a new file in the old one's place; so other files, such as a log,
    # are noticed too. Now and then anyway: not every volume tells of changes, nor does a folder that a link leads to,
    # and a file that is named may be anywhere.
    changes = awatch(folder, recursive=False, rust_timeout=_REREAD_MS, yield_on_timeout=True)
    while True:
        contents = read()
        if contents != known:
            known = contents
            changed.set()
        await anext(changes)


def _contents(path: Path, config: Config) -> Contents:
    """Of the file and of the keys that it names. None where one can't be read; whoever reads it next says why."""
    keys = config.admission.keys_file if config.admission else None
    return {file: _content(file) for file in (path, keys) if file is not None}


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
