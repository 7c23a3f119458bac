"""Replicas that a file lists, in the same words as the configuration does; somebody else writes it."""

import logging
from collections.abc import Sequence
from time import time

import yaml
from pydantic import TypeAdapter, ValidationError
from watchfiles import awatch

from gateway.config import ReplicaConfig
from gateway.config.discovery import FileDiscovery
from gateway.fleet.discovery.source import Reports, Tell

logger = logging.getLogger(__name__)

_LIST = TypeAdapter(tuple[ReplicaConfig, ...])


class WatchedFile:
    """Reads a YAML or JSON list of replicas when it changes, and now and then, as not every volume tells of changes."""

    def __init__(self, settings: FileDiscovery) -> None:
        self.name = f"file {settings.path}"
        self.reports = Reports()
        self._settings = settings

    async def run(self, tell: Tell) -> None:
        """Tell until cancelled. A file that can't be used changes nothing. Raises OSError where it has no folder."""
        self._read(tell)
        # The folder, because editors and Kubernetes put a new file in the old one's place.
        folder, pause = self._settings.path.parent, round(self._settings.reread * 1000)
        async for _ in awatch(folder, recursive=False, rust_timeout=pause, yield_on_timeout=True):
            self._read(tell)

    def _read(self, tell: Tell) -> None:
        path = self._settings.path
        try:
            replicas = parse_list(path.read_text())
        except (OSError, ValueError, yaml.YAMLError) as exc:
            if self.reports.failed(str(path), "unreadable", str(exc)):
                logger.error("discovery: %s can't be used, what it said before stays: %s", path, exc)
            return
        self.reports.succeeded(str(path), time())
        tell(replicas)


def parse_list(text: str) -> Sequence[ReplicaConfig]:
    """Read a list of replicas. Raises ValueError or YAMLError for anything else."""
    try:
        return _LIST.validate_python(yaml.safe_load(text) or ())
    except ValidationError as exc:
        error = exc.errors()[0]
        raise ValueError(f"{'.'.join(map(str, error['loc'])) or 'the file'}: {error['msg']}") from exc
