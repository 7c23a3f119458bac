"""Who may send what, and how much of it."""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from gateway.admission.tenants import Tenant
from gateway.config.section import Seconds, Section

_SALT = r"^[^@/\\\x00]+$"
"""vLLM's rule"""


class KeyConfig(Section):
    """One API key. Absent limits: none."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[^{}\s]+$")]
    """of whom it is; several keys may have one name and share its limits"""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """of the key: `printf %s KEY | sha256sum`"""
    models: frozenset[str] | None = None
    """those that it may use, by the names that clients use; absent: all"""
    requests_per_minute: Annotated[int, Field(gt=0)] | None = None
    tokens_per_minute: Annotated[int, Field(gt=0)] | None = None
    """of prompts and answers together"""
    max_in_flight: Annotated[int, Field(gt=0)] | None = None
    """requests at once, in each gateway; the others wait in the queue"""
    priority: int = 0
    """the highest that its requests may ask for by `x-kvgate-priority`"""
    cache_salt: Annotated[str, Field(max_length=128, pattern=_SALT)] | None = None
    """put into its requests, so that its cached blocks are nobody else's"""

    def tenant(self) -> Tenant:
        """Whose key it is."""
        return Tenant(**self.model_dump(exclude={"sha256"}))


class AdmissionConfig(Section):
    """Absent: everybody may send everything."""

    keys: tuple[KeyConfig, ...] = ()
    keys_file: Path | None = None
    """a YAML list of further keys, of the same form; read again when it changes"""
    max_in_flight: Annotated[int, Field(gt=0)] | None = None
    """requests at once, of everybody, in each gateway; absent: no limit"""
    queue: Annotated[int, Field(ge=0)] = 100
    """requests that may wait; the next one gets 429"""
    queue_timeout: Seconds = 30.0
    """seconds that one waits at most, then it gets 429"""
    client_salt: bool = True
    """whether a request may bring a `cache_salt` of its own; else 400"""

    @model_validator(mode="after")
    def _readable(self) -> "AdmissionConfig":
        self.all_keys()
        return self

    @property
    def asks_for_keys(self) -> bool:
        """Whether a request needs a key; clients' keys are then nobody else's to see."""
        return bool(self.keys or self.keys_file)

    def all_keys(self) -> tuple[KeyConfig, ...]:
        """Those named here and in the file. Raises ValueError where that can't be read."""
        if self.keys_file is None:
            return self.keys
        try:
            listed = yaml.safe_load(self.keys_file.read_text())
            return self.keys + TypeAdapter(tuple[KeyConfig, ...]).validate_python(tuple(listed or ()))
        except ValidationError as exc:
            # pydantic's own words would print what was in the file.
            error = exc.errors(include_input=False)[0]
            raise ValueError(f"{self.keys_file}: {'.'.join(map(str, error['loc']))}: {error['msg']}") from None
        except (OSError, TypeError, yaml.YAMLError) as exc:
            raise ValueError(f"{self.keys_file}: {type(exc).__name__}") from exc
