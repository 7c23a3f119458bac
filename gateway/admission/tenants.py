"""Who may ask: API keys, kept as hashes."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.errors import Unauthorized

_BEARER = b"bearer "


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whom a key belongs to, and what that may do. None: no limit."""

    name: str
    models: frozenset[str] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_in_flight: int | None = None
    priority: int = 0
    """the highest that its requests may ask for"""
    cache_salt: str | None = None
    """keeps its cached blocks apart from all others'"""

    def may_use(self, model: str | None) -> bool:
        """Whether this model is open to it."""
        return self.models is None or (model is not None and model in self.models)


class Keys:
    """Finds the tenant of a key. Holds SHA-256 digests, never keys."""

    def __init__(self, tenants: Iterable[tuple[str, Tenant]]) -> None:
        """tenants: each key's digest in hexadecimal, and whose it is."""
        self._tenants = {bytes.fromhex(digest): tenant for digest, tenant in tenants}

    def tenant(self, fields: Mapping[bytes, bytes]) -> Tenant:
        """Who sends a request with these headers: `Authorization: Bearer KEY`, or Anthropic's `x-api-key: KEY`.

        Raises Unauthorized.
        """
        key = presented(fields)
        if not key:
            raise Unauthorized("You didn't provide an API key: `Authorization: Bearer KEY`.")
        digest = hashlib.sha256(key).digest()
        # The time this takes tells of the digest at most, and nobody can choose that.
        found = None
        for known, tenant in self._tenants.items():
            if hmac.compare_digest(known, digest):
                found = tenant
        if found is None:
            raise Unauthorized("Incorrect API key provided.")
        return found


def presented(fields: Mapping[bytes, bytes]) -> bytes:
    """The key that a request carries, or b""."""
    authorization = fields.get(b"authorization", b"")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    return fields.get(b"x-api-key", b"").strip()
