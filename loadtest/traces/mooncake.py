"""Mooncake's request traces (FAST '25): one JSON object a line, prompts as ids of 512-token blocks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK_SIZE = 512
"""tokens"""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace."""

    arrival: float
    """seconds after the trace's start"""
    prompt_tokens: int
    output_tokens: int
    blocks: Sequence[int]
    """ids of the prompt's blocks, chained: an id stands for its block and all before it; the last may be partial"""

    @property
    def reusable(self) -> Sequence[int]:
        """The blocks that a cache can serve: full ones, without the last token, which is always computed."""
        return self.blocks[: (self.prompt_tokens - 1) // BLOCK_SIZE]

    @property
    def full(self) -> Sequence[int]:
        """The blocks that a cache can keep afterwards."""
        return self.blocks[: self.prompt_tokens // BLOCK_SIZE]


class TraceError(Exception):
    """A file is not a trace of this kind. The message names file and line."""


def load(path: Path) -> list[TraceRequest]:
    """All requests in order of arrival. Raises OSError or TraceError."""
    requests: list[TraceRequest] = []
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                fields = json.loads(line)
                requests.append(
                    TraceRequest(
                        arrival=fields["timestamp"] / 1000,
                        prompt_tokens=fields["input_length"],
                        output_tokens=fields["output_length"],
                        blocks=fields["hash_ids"],
                    )
                )
            except (ValueError, KeyError, TypeError) as error:
                raise TraceError(f"{path}:{number}: {type(error).__name__}: {error}") from error
    return requests
