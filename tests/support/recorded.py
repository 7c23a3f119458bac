"""The frames that real engines sent (`tests/captures`)."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent.parent / "captures"


class Message(NamedTuple):
    """One message as it came over the wire."""

    seq: int
    payload: bytes
    frames: Sequence[bytes]


def recordings() -> Sequence[str]:
    """The names of all recordings."""
    return sorted(path.stem for path in _FOLDER.glob("*.jsonl"))


def recorded(name: str) -> Sequence[Message]:
    """The messages of one recording. The first line of its file says what it is."""
    messages: list[Message] = []
    for line in (_FOLDER / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "frames" in row:
            frames = [base64.b64decode(frame) for frame in row["frames"]]
            messages.append(Message(int.from_bytes(frames[-2], "big", signed=True), frames[-1], frames))
    return messages
