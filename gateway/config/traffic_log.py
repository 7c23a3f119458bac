"""The traffic log: what is written down of each request for `kvgate report`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gateway.config.section import Section


class TrafficLogConfig(Section):
    """Lengths, salted names of blocks, tenant, decision and outcome of each request; never its text, tokens or keys."""

    path: Path
    """the file that is written; older ones are beside it, `.1` the youngest. Each gateway needs one of its own; workers
    add their number to the name"""
    salt: str = ""
    """a secret that names of blocks depend on, the same in all gateways whose logs are read together; drawn anew at
    each start where absent"""
    stride: Annotated[int, Field(gt=0)] = 8
    """blocks that one name stands for: sharing is told in steps of so many"""
    file_bytes: Annotated[int, Field(ge=4096)] = 256 * 1024 * 1024
    """size at which a file is put aside"""
    files: Annotated[int, Field(ge=1)] = 4
    """files in all; the oldest is deleted"""
