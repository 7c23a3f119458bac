"""What nobody refers to any more but itself: Python frees it only when its collector comes."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector away until left. What is there already stays out of its sight."""
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def unreachable(package: str) -> Counter[str]:
    """How many objects of which classes of a package wait for the collector; they go on waiting."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(type(each).__name__ for each in gc.garbage if type(each).__module__.startswith(f"{package}."))
    gc.garbage.clear()
    return found
