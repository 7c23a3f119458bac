"""How the index is checked against what engines report."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Section


class AuditConfig(Section):
    """When an engine's part of the index is thrown away and learned again."""

    window: Annotated[int, Field(ge=1)] = 50
    """answers looked back on"""
    level: Annotated[float, Field(gt=0, le=1)] = 0.1
    """share of them in which the index had a block that the engine had not, although nothing said that it was gone"""
