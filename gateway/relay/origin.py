"""Where a replica listens."""

from dataclasses import dataclass
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """scheme: http or https. host: a name or an address, IPv6 without brackets."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """Read a replica's URL. Raises ValueError if it is more, or less, than scheme, host and port."""
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not parts.hostname.isascii():
            raise ValueError(f"{url!r} is not an http:// or https:// URL with a host")
        if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{url!r} must be scheme, host and port only")
        return cls(parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme])

    @property
    def authority(self) -> bytes:
        """What the Host header says: a default port left out, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}").encode("ascii")
