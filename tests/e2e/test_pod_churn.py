"""A gateway behind whose Service pods are replaced all the time."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from cluster import NAMESPACE, Cluster
from fake_replica import FakeReplica, fake_replica
from kube_server import kube_server
from processes import Running, eventually, free_port, gateway_process

PODS = int(os.environ.get("KVGATE_PODS", 200))
"""that come and go; `make soak` has more of them"""
PACE = 0.1
"""seconds from one pod's start to the next one's"""
ATTEMPTS = 10
"""replicas that may have gone between a request's arrival and its being served"""
BODY = {"model": "fake", "messages": [{"role": "user", "content": "x"}]}


def place(fake: FakeReplica) -> str:
    return fake.url.removeprefix("http://")


@dataclass
class World:
    cluster: Cluster
    gateway: Running
    client: httpx.AsyncClient
    members: Set[str] = frozenset()
    """the fleet as the gateway showed it last"""
    answers: list[int] = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def look(self) -> None:
        """Keep `members` current until cancelled."""
        while True:
            self.members = set((await self.client.get(self.gateway.url + "/readyz")).json()["replicas"])
            await asyncio.sleep(0.05)

    async def ask(self) -> None:
        """Send requests until `stopped`."""
        while not self.stopped.is_set():
            answer = await self.client.post(self.gateway.url + "/v1/chat/completions", json=BODY)
            self.answers.append(answer.status_code)
            await asyncio.sleep(0.02)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition()

        await eventually(holds, what)

    async def pod(self) -> None:
        """A pod's life. It is told gone as soon as it has joined, and takes no new connection from that moment."""
        port = free_port()
        # Not one that the system gives to whoever connects: that would answer for the pod when it is gone.
        async with fake_replica(port=port) as fake:
            self.cluster.start("127.0.0.1", port, {"kv-events-port": "9"})
            await self.until(lambda: place(fake) in self.members, "it has joined")
            self.cluster.stop("127.0.0.1", port)
            await fake.refuse()
            await self.until(lambda: place(fake) not in self.members and not fake.open, "it has left")

    async def churn(self, pods: int, pace: float) -> None:
        """One pod every `pace` seconds, however long those before take."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.TaskGroup() as lives:
            for number in range(pods):
                await asyncio.sleep(start + number * pace - loop.time())
                lives.create_task(self.pod())


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with kube_server() as api, httpx.AsyncClient(timeout=60) as client:
        where = {"service": "vllm", "namespaces": [NAMESPACE], "api": api.url, "token_file": None}
        settings = {"discovery": {"kubernetes": [where], "forget": 0.1}, "limits": {"attempts": ATTEMPTS}}
        cluster = Cluster(api)
        async with fake_replica() as steady:
            cluster.start("127.0.0.1", int(place(steady).split(":")[1]))
            async with gateway_process(settings, folder) as gateway:
                yield World(cluster, gateway, client)


async def test_ten_pods_a_second_come_and_go_and_no_request_is_lost_and_nothing_of_them_stays(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        before = descriptors(there.gateway)
        asking = [asyncio.create_task(there.ask()) for _ in range(2)]
        looking = asyncio.create_task(there.look())
        await there.churn(PODS, PACE)
        there.stopped.set()
        await asyncio.gather(*asking)
        looking.cancel()
        await asyncio.wait([looking])
        assert set(there.answers) == {200}
        remaining = {url.removeprefix("http://") for url, _ in there.cluster.truth}

        async def as_before() -> bool:
            text = (await there.client.get(there.gateway.url + "/metrics")).text
            seen = {line.split('replica="')[1].split('"')[0] for line in text.splitlines() if 'replica="' in line}
            # A few are connections of those who asked and of the API; each pod had three at least.
            return seen == remaining and descriptors(there.gateway) <= before + 20

        await eventually(as_before, "no series, socket or file of a pod that is gone remains")


def descriptors(gateway: Running) -> int:
    return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))
