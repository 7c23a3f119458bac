"""Bounds on requests, and how replicas are watched."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Seconds, Section


class Limits(Section):
    """What one request may take."""

    body_bytes: Annotated[int, Field(gt=0)] = 64 * 1024 * 1024
    attempts: Annotated[int, Field(ge=1)] = 3
    """replicas tried in all before the client is told"""
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
    models_interval: Seconds = 10.0
    """seconds between two looks at a replica's list of models and event sources"""
