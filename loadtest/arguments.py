"""Values that commands take."""

import argparse


def positive(text: str) -> int:
    """At least 1. Raises ArgumentTypeError, ValueError."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def above_zero(text: str) -> float:
    """More than 0. Raises ArgumentTypeError, ValueError."""
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return number


def share(text: str) -> float:
    """From 0 to 1. Raises ArgumentTypeError, ValueError."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return number
