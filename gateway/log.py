"""Logging: one line an event, to standard error."""

import logging


def configure(level: str) -> None:
    """Send the program's log to standard error. level: debug, info, warning or error."""
    # What the format does not show need not be looked up for each line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    # One line for each request to a replica's /metrics would drown what matters.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)
