"""The traffic log over HTTP, for `kvgate report --live`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

_PIECE = 1 << 16


def routes(files: Callable[[], Sequence[Path]]) -> APIRouter:
    """files: those of the log as it is now, oldest first."""
    router = APIRouter()

    @router.get("/traffic_log", summary="What was asked, line by line: lengths, salted names of blocks, outcomes")
    def traffic_log() -> StreamingResponse:
        return StreamingResponse(_pieces(files()), media_type="application/jsonl")

    return router


def _pieces(files: Sequence[Path]) -> Iterator[bytes]:
    """In a thread of the framework's pool. A file that was put aside meanwhile is read to its end all the same."""
    opened = [file.open("rb") for file in files]
    try:
        for file in opened:
            while piece := file.read(_PIECE):
                yield piece
    finally:
        for file in opened:
            file.close()
