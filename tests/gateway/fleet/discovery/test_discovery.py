import asyncio
from collections.abc import Sequence
from random import Random

from prometheus_client import CollectorRegistry

from gateway.config import ReplicaConfig
from gateway.fleet.discovery.discovery import Discovery
from gateway.fleet.discovery.source import Reports, Source, Tell
from gateway.fleet.discovery.state import DiscoveryCollector


def replica(host: str, **fields: object) -> ReplicaConfig:
    return ReplicaConfig.model_validate({"url": f"http://{host}:8000", **fields})


A, B, C = replica("10.0.0.1"), replica("10.0.0.2"), replica("10.0.0.3", draining=True)


class Speaker:
    """Says what the test has it say."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reports = Reports()
        self.tell: Tell | None = None
        self.fault: Exception | None = None

    async def run(self, tell: Tell) -> None:
        self.tell = tell
        if self.fault:
            raise self.fault
        await asyncio.Event().wait()

    def say(self, *replicas: ReplicaConfig) -> None:
        assert self.tell is not None
        self.tell(replicas)


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_everybody_that_any_source_or_the_configuration_names_is_wanted() -> None:
    one, two = Speaker("one"), Speaker("two")
    wanted: list[Sequence[ReplicaConfig]] = []
    discovery = Discovery([one, two], Random(1), wanted.append)
    task = asyncio.create_task(discovery.run())
    await steps()
    discovery.configure([A])
    assert discovery.waiting() == ["one has not answered yet", "two has not answered yet"]
    one.say(B)
    two.say(C)
    assert list(wanted[-1]) == [B, C, A]
    told = len(wanted)
    two.say(C)
    assert len(wanted) == told, "the same again is no news"
    one.say()
    assert list(wanted[-1]) == [C, A]
    assert discovery.waiting() == []
    task.cancel()
    await asyncio.wait([task])


async def test_a_source_that_does_not_work_is_reported_and_ends_nobody_else() -> None:
    broken, working = Speaker("broken"), Speaker("working")
    broken.fault = OSError("no such folder")
    discovery = Discovery([broken, working], Random(1), lambda replicas: None)
    task = asyncio.create_task(discovery.run())
    await steps()
    working.say(A)
    assert discovery.waiting() == ["broken has not answered yet: broken: no such folder"]
    assert not task.done()
    working.reports.failed("pods", "api", "403 forbidden")
    assert discovery.troubles() == [
        "working can't be asked, so replicas that come or go are not seen: pods: 403 forbidden"
    ]
    task.cancel()
    await asyncio.wait([task])


async def test_what_sources_know_is_in_the_metrics() -> None:
    source: Speaker = Speaker("one")
    sources: list[Source] = [source]
    discovery = Discovery(sources, Random(1), lambda replicas: None)
    registry = CollectorRegistry()
    registry.register(DiscoveryCollector(discovery))
    task = asyncio.create_task(discovery.run())
    await steps()
    source.say(A, B, C)
    source.reports.failed("pods", "api", "503")
    source.reports.succeeded("pods", 12.0)
    value = registry.get_sample_value
    assert value("kvgate_discovered_replicas", {"source": "one", "state": "serving"}) == 2
    assert value("kvgate_discovered_replicas", {"source": "one", "state": "draining"}) == 1
    assert value("kvgate_discovery_faults_total", {"source": "one", "kind": "api"}) == 1
    assert value("kvgate_discovery_last_success_timestamp_seconds", {"source": "one"}) == 12.0
    task.cancel()
    await asyncio.wait([task])
