"""Where spans of requests go."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from gateway.config.section import Section

_PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")


class TracingConfig(Section):
    """OpenTelemetry spans, one for each request; needs `pip install 'kvgate[otel]'`."""

    endpoint: Annotated[str, Field(pattern="^https?://")]
    """of a collector, OTLP over HTTP: `http://collector:4318/v1/traces`"""
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    """that the collector asks for"""
    service: str = "kvgate"
    """the name under which spans are found"""
    share: Annotated[float, Field(ge=0, le=1)] = 1.0
    """of the requests that bring no trace of their own; those that do are sampled as their trace is"""

    @model_validator(mode="after")
    def _is_installed(self) -> "TracingConfig":
        try:
            for package in _PACKAGES:
                distribution(package)
        except PackageNotFoundError as exc:
            raise ValueError(f"{exc.name} is not installed: pip install 'kvgate[otel]'") from exc
        return self
