"""Threads for file operations that may hang for minutes: nothing waits for them, not even the end of the process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar, cast

T = TypeVar("T")
_WAITING = 64
"""calls that may wait for each thread; more means that all of them hang"""


class Saturated(Exception):
    """Every thread is at work, and enough calls wait already."""


class Workers:
    """A few daemon threads. A pool of `concurrent.futures` is no use here: it is joined when the interpreter ends."""

    def __init__(self, threads: int, name: str) -> None:
        """threads: started one by one as they are needed."""
        self._most = threads
        self._name = name
        self._threads: list[Thread] = []
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._outstanding = 0

    @property
    def outstanding(self) -> int:
        """Calls that have not come back."""
        return self._outstanding

    def submit(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Call in a thread. To be used on one event loop only. Raises Saturated.

        Whoever gives up on the future leaves the call running, or does without it if it has not begun.
        """
        if self._outstanding >= self._most * (1 + _WAITING):
            raise Saturated
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._outstanding += 1

        def done(settle: Callable[[], None]) -> None:
            self._outstanding -= 1
            if not future.done():
                settle()

        def run() -> None:
            settle: Callable[[], None]
            try:
                result = None if future.cancelled() else call()
            except Exception as exc:
                failure = exc

                def settle() -> None:
                    future.set_exception(failure)
            else:

                def settle() -> None:
                    future.set_result(cast(T, result))

            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(done, settle)

        self._calls.put(run)
        if len(self._threads) < min(self._most, self._outstanding):
            thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Let the threads end, those that can."""
        for _ in self._threads:
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
