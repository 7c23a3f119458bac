"""Python's collector of cycles: what it is spared."""

import gc


def settle() -> None:
    """To be called once everything has been built: requests leave no cycles, and what is there now stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
