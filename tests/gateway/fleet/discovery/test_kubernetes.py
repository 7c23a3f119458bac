"""Against an emulated API: after every fault what is told equals the API's truth within the re-list interval."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from cluster import LABELS, NAMESPACE, PODS, SLICES, Cluster, endpoint, pod_object, slice_object
from kube_server import KubeServer, kube_server
from processes import eventually

from gateway.config import ReplicaConfig
from gateway.config.discovery import KubernetesDiscovery
from gateway.fleet.discovery.kubernetes import Kubernetes
from gateway.fleet.discovery.reconcile import identity

RELIST = 0.3


@dataclass
class World:
    api: KubeServer
    cluster: Cluster
    source: Kubernetes
    told: list[set[tuple[str, str]]] = field(default_factory=list)
    last: tuple[ReplicaConfig, ...] = ()

    def tell(self, replicas: Iterable[ReplicaConfig]) -> None:
        self.last = tuple(replicas)
        self.told.append({identity(replica) for replica in self.last})

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition()

        await eventually(holds, what)

    async def settled(self) -> None:
        """Until what was told last is true."""
        await self.until(lambda: bool(self.told) and self.told[-1] == self.cluster.truth, "the truth is told")


def settings(api: KubeServer, **other: object) -> KubernetesDiscovery:
    return KubernetesDiscovery.model_validate(
        {
            "service": "vllm", "namespaces": [NAMESPACE], "api": api.url, "token_file": None, "ca_file": None,
            "relist": RELIST, "retry": 0.02, "retry_most": 0.1, **other,
        }
    )  # fmt: skip


@asynccontextmanager
async def discovering(**other: object) -> AsyncIterator[World]:
    """A cluster of two pods, and the source that has told of them."""
    async with kube_server() as api:
        cluster = Cluster(api)
        cluster.start("10.0.0.1", 8000)
        cluster.start("10.0.0.2", 8000)
        world = World(api, cluster, Kubernetes(settings(api, **other), Random(1)))
        task = asyncio.create_task(world.source.run(world.tell))
        try:
            await world.settled()
            await world.until(lambda: api.watching == 2, "both watches are open")
            yield world
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_pods_that_come_and_go_are_told_by_the_watch() -> None:
    async with discovering(relist=60) as world:
        lists = world.api.lists
        world.cluster.start("10.0.0.3", 8000)
        world.cluster.stop("10.0.0.1", 8000)
        await world.settled()
        assert world.api.lists == lists


async def test_a_list_comes_in_pages_of_which_none_is_left_out() -> None:
    async with discovering() as world:
        for number in range(3, 20):
            world.cluster.start(f"10.0.0.{number}", 8000 + number)
        world.api.drop_watches()
        await world.settled()


async def test_a_watch_that_breaks_is_followed_by_a_list() -> None:
    async with discovering(relist=60) as world:
        with world.api.unheard():
            world.cluster.stop("10.0.0.1", 8000)
        world.api.drop_watches()
        await world.settled()
        assert world.source.reports.faults["broken"] > 0


async def test_a_watch_that_the_server_ends_is_followed_by_a_list() -> None:
    async with discovering(relist=60) as world:
        with world.api.unheard():
            world.cluster.start("10.0.0.3", 8000)
        world.api.end_watches()
        await world.settled()
        assert world.source.reports.trouble is None


async def test_a_deletion_that_no_watch_heard_of_is_found_by_the_next_list_though_the_watch_stays_open() -> None:
    async with discovering() as world:
        with world.api.unheard():
            world.cluster.stop("10.0.0.1", 8000)
        await world.settled()


async def test_a_version_that_the_server_forgot_is_followed_by_a_list() -> None:
    async with discovering(relist=60) as world:
        with world.api.unheard():
            world.cluster.stop("10.0.0.2", 8000)
        world.api.forget()
        await world.settled()
        assert world.source.reports.faults["expired"] > 0


async def test_a_line_that_is_no_event_is_followed_by_a_list() -> None:
    async with discovering(relist=60) as world:
        with world.api.unheard():
            world.cluster.stop("10.0.0.2", 8000)
        world.api.say(b'{"type": "MODI\n')
        await world.settled()


async def test_while_the_api_refuses_what_was_told_last_stays_and_the_reason_can_be_read() -> None:
    async with discovering() as world:
        told = list(world.told)
        world.api.refusal = (403, 'pods is forbidden: User "kvgate" cannot list resource "pods"')
        world.api.drop_watches()
        await world.until(lambda: world.source.reports.trouble is not None, "trouble is reported")
        await world.until(lambda: "cannot list" in (world.source.reports.trouble or ""), "the reason can be read")
        world.cluster.stop("10.0.0.1", 8000)
        assert world.told == told
        world.api.refusal = None
        await world.settled()
        await world.until(lambda: world.source.reports.trouble is None, "trouble is over")


async def test_a_pod_replaced_under_its_address_is_another_replica() -> None:
    async with discovering(relist=60) as world:
        before = world.told[-1]
        world.cluster.stop("10.0.0.1", 8000)
        world.cluster.start("10.0.0.1", 8000)
        await world.settled()
        assert {url for url, _ in world.told[-1]} == {url for url, _ in before}
        assert world.told[-1] != before


async def test_a_pod_replaced_under_its_address_while_nobody_listened_is_another_replica() -> None:
    async with discovering() as world:
        with world.api.unheard():
            world.cluster.stop("10.0.0.1", 8000)
            world.cluster.start("10.0.0.1", 8000)
        await world.settled()


async def test_slices_whose_labels_match_no_longer_have_no_replicas() -> None:
    async with discovering(relist=60) as world:
        others = {**LABELS, "kubernetes.io/service-name": "another"}
        world.api.put(SLICES, slice_object([endpoint("10.0.0.1", "x", "x")], name="vllm-8000", labels=others))
        await world.until(lambda: world.told[-1] == set(), "nobody is there")


async def test_a_pod_whose_labels_match_no_longer_is_no_replica() -> None:
    async with discovering(relist=60, pods="app=vllm") as world:
        (_, uid), *_ = sorted(world.cluster.truth)
        world.api.put(PODS, pod_object(f"pod-{uid}", uid, labels={"app": "retired"}))
        await world.until(lambda: uid not in {uid for _, uid in world.told[-1]}, "the pod is left out")
        assert len(world.told[-1]) == 1


async def test_changes_without_an_address_cost_only_the_replica_that_lost_its_own() -> None:
    async with discovering(relist=60) as world:
        (_, first), (url, second) = sorted(world.cluster.truth)
        body = pod_object(f"pod-{first}", first)
        world.api.put(PODS, {**body, "status": {"phase": "Running"}})
        world.api.put(PODS, {"metadata": {"name": "pending", "namespace": NAMESPACE, "uid": "p"}})
        endpoints = [endpoint(None, f"pod-{first}", first), endpoint("10.0.0.2", f"pod-{second}", second)]
        world.api.put(SLICES, slice_object(endpoints, name="vllm-8000"))
        await world.until(lambda: world.told[-1] == {(url, second)}, "the other one is still there")


async def test_what_a_pod_says_of_itself_is_told_when_it_changes() -> None:
    async with discovering(relist=60) as world:
        (_, uid), *_ = sorted(world.cluster.truth)
        world.api.put(PODS, pod_object(f"pod-{uid}", uid, marks={"weight": "4", "draining": "true"}))
        await world.until(lambda: any(replica.draining and replica.weight == 4.0 for replica in world.last), "it is")


async def test_marks_that_make_no_sense_are_counted_once() -> None:
    async with discovering() as world:
        (_, uid), *_ = sorted(world.cluster.truth)
        world.api.put(PODS, pod_object(f"pod-{uid}", uid, marks={"weight": "heavy"}))
        await world.until(lambda: world.source.reports.faults["mark"] == 1, "counted")
        lists = world.api.lists
        await world.until(lambda: world.api.lists >= lists + 4, "listed again")
        assert world.source.reports.faults["mark"] == 1


async def test_the_token_is_read_for_each_request_as_it_is_replaced_while_in_use(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    async with discovering(token_file=token) as world:
        token.write_text("second\n")
        await world.until(lambda: "second" in world.api.tokens, "the new token is sent")
        assert set(world.api.tokens) == {"first", "second"}


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_sequence_of_changes_and_faults_the_truth_is_told(seed: int) -> None:
    random = Random(seed)
    async with discovering() as world:
        places = [(f"10.0.1.{host}", 8000 + port) for host in range(6) for port in range(2)]
        faults = [world.api.drop_watches, world.api.end_watches, world.api.forget]
        for _ in range(60):
            place = random.choice(places)
            change = world.cluster.stop if place in world.cluster.uids else world.cluster.start
            if random.random() < 0.3:
                with world.api.unheard():
                    change(*place)
            else:
                change(*place)
            if random.random() < 0.2:
                random.choice(faults)()
            await asyncio.sleep(random.random() * 0.02)
        await world.settled()
