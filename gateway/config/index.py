"""Where the index of what engines hold lives, and how long anything waits for it."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Seconds, Section


class IndexConfig(Section):
    """In this process, or in a Redis that several gateways share."""

    redis_url: Annotated[str, Field(pattern=r"^(redis|rediss|unix)://")] | None = None
    """`rediss://` for TLS; user and password of an ACL before the host; absent: in memory"""
    redis_cluster: bool = False
    """whether that is a node of a Redis Cluster"""
    key_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.-]*$")] = "kvgate:"
    """what every key begins with; one for each deployment"""
    deadline_ms: Annotated[float, Field(gt=0)] = 20.0
    """milliseconds that a request waits for Redis at most"""
    lease: Annotated[float, Field(ge=0.5)] = 2.0
    """seconds after which another gateway takes over the event streams of one that is silent"""
    retry: Seconds = 0.25
    """seconds between two attempts to reach a Redis that is down"""
    tell_interval: Seconds = 0.03
    """seconds between two words in which gateways that share a Redis tell each other what they have under way"""
    forget: Seconds = 60.0
    """seconds after which an engine that no gateway follows is forgotten"""
