"""When an engine counts as saturated, for whoever scales the fleet."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Section


class Saturation(Section):
    """Either is enough."""

    queue_ms: Annotated[float, Field(gt=0)] = 500.0
    """milliseconds of predicted wait"""
    kv_usage: Annotated[float, Field(gt=0, le=1)] = 0.95
    """share of the KV cache that running requests hold"""
