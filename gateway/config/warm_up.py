"""What a replica that joins is given to compute before anybody asks it."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Seconds, Section


class WarmUp(Section):
    """The beginnings that most prompts share, one after the other, while it has nothing else to do."""

    beginnings: Annotated[int, Field(ge=0)] = 0
    """at most; none by default: it costs the new replica their prefill"""
    half_life: Seconds = 600.0
    """seconds after which a request counts half in what is asked for most"""
    patience: Seconds = 60.0
    """seconds after which it is given up where the replica always has something else to do"""
