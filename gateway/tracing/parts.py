"""Builds what traces requests, where that is set: OpenTelemetry is an extra, and imported nowhere else."""

from typing import TYPE_CHECKING

from gateway.config import TracingConfig

if TYPE_CHECKING:
    from gateway.tracing.spans import Tracing


def tracing(config: TracingConfig | None) -> "Tracing | None":
    """None where nothing is to be traced."""
    if config is None:
        return None
    from gateway.tracing.spans import Tracing, provider

    return Tracing(provider(config))
