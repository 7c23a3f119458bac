"""Waiting for something to become true, and what a test says when it does not."""

import time
from collections.abc import Callable

PATIENCE = 20.0
"""seconds"""


def wait_until(what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Return once `holds()`; fail with `what` after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, f"not within {patience:.0f} s: {what}"
        time.sleep(0.02)
