"""Settings -> the sources that they name."""

from collections.abc import Sequence
from random import Random

from gateway.config.discovery import Discovery as Settings
from gateway.fleet.discovery.file import WatchedFile
from gateway.fleet.discovery.kubernetes import Kubernetes
from gateway.fleet.discovery.source import Source


def make_sources(settings: Settings, random: Random) -> Sequence[Source]:
    """One source for each entry."""
    sources: list[Source] = [Kubernetes(entry, random) for entry in settings.kubernetes]
    if settings.dns:
        from gateway.fleet.discovery.dns import DNS  # a tenth of a second for those who look there

        sources += [DNS(entry, random) for entry in settings.dns]
    return [*sources, *(WatchedFile(entry) for entry in settings.file)]
