"""TLS towards replicas whose URL is https."""

import ssl
from pathlib import Path

from pydantic import model_validator

from gateway.config.section import Section


class UpstreamTLS(Section):
    """Whose certificates are trusted, and which one is shown."""

    ca: Path | None = None
    """PEM file of the authorities; absent: the system's"""
    certificate: Path | None = None
    """PEM file of the gateway's own certificate and its chain"""
    key: Path | None = None
    """PEM file of its key, where the certificate's does not hold it"""

    @model_validator(mode="after")
    def _usable(self) -> "UpstreamTLS":
        self.context()
        return self

    def context(self) -> ssl.SSLContext:
        """For connections; names are always checked. Raises ValueError for files that can't be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as exc:
            raise ValueError(f"{type(exc).__name__}: {exc.strerror or exc}") from exc
        return context
