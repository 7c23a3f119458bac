"""Bounds on requests, how replicas are watched, and when one that fails is left alone."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Seconds, Section


class Limits(Section):
    """What one request may take."""

    body_bytes: Annotated[int, Field(gt=0)] = 64 * 1024 * 1024
    """of a body that is read whole"""
    upload_bytes: Annotated[int, Field(gt=0)] | None = None
    """of a form, which is passed on as it comes; absent: any size"""
    upload_held: Annotated[int, Field(gt=0)] = 1024 * 1024
    """bytes of a form that are read before it is passed on: its model must be named there, and a form that ends there
    can be sent again"""
    buffer_bytes: Annotated[int, Field(gt=0)] = 262_144
    """of an answer that are kept for a client that is slower than its replica, here and as much again by the system;
    above it the replica has to wait"""
    attempts: Annotated[int, Field(ge=1)] = 3
    """replicas tried in all before the client is told"""
    retry_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    """of the requests, how many may be sent a second time ..."""
    retry_reserve: Annotated[int, Field(ge=0)] = 100
    """... and how many on top of that, all at once"""
    total_timeout: Seconds | None = None
    """seconds from a request's arrival to the end of its answer, however often it is tried"""
    connect_timeout: Seconds = 2.0
    response_timeout: Seconds = 600.0
    """seconds until the answer's headers"""
    idle_timeout: Seconds = 300.0
    """seconds between two pieces of an answer"""
    drain: Annotated[int, Field(ge=0)] = 30
    """seconds that running answers get to end when the gateway is told to stop"""
    max_connections: Annotated[int, Field(gt=0)] = 4096
    """connections to each replica"""
    idle_connection: Annotated[float, Field(gt=0, lt=5)] = 4.0
    """seconds that an unused connection is kept; an engine closes its own after 5"""


class Probing(Section):
    """How replicas are watched."""

    interval: Seconds = 1.0
    timeout: Seconds = 2.0
    failures: Annotated[int, Field(ge=1)] = 2
    """failed probes in a row until a replica leaves; a refused connection counts at once"""
    successes: Annotated[int, Field(ge=1)] = 2
    """good probes in a row until one that left is taken in again"""
    describe_interval: Seconds = 10.0
    """seconds between two looks at all that a replica says of itself; other models are noticed by each probe"""


class Ejection(Section):
    """When a replica that fails gets no requests for a while. 4xx, 429, 503 and clients that leave do not count."""

    failures: Annotated[int, Field(ge=1)] = 5
    """different requests in a row that it failed: 5xx, an answer that broke off or did not come in time"""
    connections: Annotated[int, Field(ge=1)] = 2
    """attempts to connect in a row that failed"""
    rest: Seconds = 5.0
    """seconds until it is tried again with one request; doubled each time that fails"""
    longest_rest: Seconds = 60.0
    slow_start: Annotated[float, Field(ge=0)] = 10.0
    """seconds over which one that joins a running fleet gets its full share; 0 for at once"""
