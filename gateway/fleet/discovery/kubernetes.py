"""Replicas behind a Service: EndpointSlices say who is there and ready, pods say what else is to be known of them."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import chain
from random import Random

import httpx

from gateway.config.discovery import KubernetesDiscovery
from gateway.fleet.discovery.endpoints import Terms, observe
from gateway.fleet.discovery.kube_api import Collection, KubeApi, trust
from gateway.fleet.discovery.kube_objects import EndpointSlice, Pod
from gateway.fleet.discovery.mirror import Mirror
from gateway.fleet.discovery.source import Backoff, Reports, Tell

logger = logging.getLogger(__name__)


class Kubernetes:
    """Watches one Service, or all slices with some labels, in some namespaces."""

    def __init__(self, settings: KubernetesDiscovery, random: Random) -> None:
        self.name = f"kubernetes {','.join(settings.namespaces) or '.'}/{settings.service or settings.selector}"
        self.reports = Reports()
        self._settings = settings
        self._random = random
        self._unreadable: set[str] = set()

    async def run(self, tell: Tell) -> None:
        """Tell on every change of slices or pods until cancelled."""
        settings = self._settings
        changed = asyncio.Event()
        async with httpx.AsyncClient(verify=trust(settings.ca_file)) as client, asyncio.TaskGroup() as group:
            api = KubeApi(client, str(settings.api).rstrip("/"), settings.token_file, settings.timeout)
            backoff = Backoff(settings.retry, settings.retry_most, self._random)
            slices, pods = [], []
            for name in namespaces_of(settings):
                of_slices = Collection(f"/apis/discovery.k8s.io/v1/namespaces/{name}/endpointslices", settings.labels)
                of_pods = Collection(f"/api/v1/namespaces/{name}/pods", settings.pods)
                slices.append(
                    Mirror(api, of_slices, EndpointSlice, settings.relist, backoff, self.reports, changed.set)
                )
                pods.append(Mirror(api, of_pods, Pod, settings.relist, backoff, self.reports, changed.set))
            for each in [mirror.run for mirror in slices] + [mirror.run for mirror in pods]:
                group.create_task(each())
            while True:
                await changed.wait()
                changed.clear()
                self._tell(tell, [mirror.objects for mirror in slices], [mirror.objects for mirror in pods])

    def _tell(self, tell: Tell, slices: list[Iterable[EndpointSlice] | None], pods: list[Iterable[Pod] | None]) -> None:
        listed_slices = [objects for objects in slices if objects is not None]
        listed_pods = [objects for objects in pods if objects is not None]
        if len(listed_slices) + len(listed_pods) < len(slices) + len(pods):
            return  # half of the picture would make replicas leave that are there
        settings = self._settings
        terms = Terms(settings.scheme, settings.port, settings.family)
        replicas, unreadable = observe(chain(*listed_slices), chain(*listed_pods), terms)
        for mark in set(unreadable) - self._unreadable:
            self.reports.faults["mark"] += 1
            logger.error("discovery: a pod is marked %s, which makes no sense and is left out", mark)
        self._unreadable = set(unreadable)
        tell(replicas)


def namespaces_of(settings: KubernetesDiscovery) -> Sequence[str]:
    """Where to look: as set, else where this process runs."""
    if settings.namespaces:
        return settings.namespaces
    try:
        return (settings.namespace_file.read_text().strip(),)
    except OSError:
        return ("default",)
