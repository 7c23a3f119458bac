"""What is set of the Python interpreter as a whole: its collector of cycles and its lock."""

import gc
import sys

_SWITCH_INTERVAL = 0.00005


def share() -> None:
    """Let no thread keep the interpreter for long while another waits.

    The event loop gives it away at each of its system calls. To get it back from the thread that decodes KV events it
    would wait for 5 ms, Python's default.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)


def settle() -> None:
    """To be called once everything has been built: requests leave no cycles, and what is there now stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
