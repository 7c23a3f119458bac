"""What operators see and may do on the page."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Section


class Page(Section):
    """The dashboard and the decisions that are kept for it."""

    decisions: Annotated[int, Field(ge=0)] = 1000
    """decisions that are kept, with every candidate; fewer where they have over 32,768 candidates in all (16 MB)"""
    policy_switch: bool = False
    """whether `POST /policy` may set another policy, until the file is read again"""
