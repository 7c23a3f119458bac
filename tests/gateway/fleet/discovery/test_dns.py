import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random

from dns_server import DnsServer, dns_server
from processes import eventually

from gateway.config import ReplicaConfig
from gateway.config.discovery import DnsDiscovery
from gateway.fleet.discovery.dns import DNS

NAME = "vllm.ml.svc."
SRV = "_http._tcp.vllm.ml.svc."


class Listener:
    def __init__(self, source: DNS) -> None:
        self.source = source
        self.replicas: tuple[ReplicaConfig, ...] | None = None

    def tell(self, replicas: Iterable[ReplicaConfig]) -> None:
        self.replicas = tuple(replicas)

    async def until(self, *urls: str) -> None:
        async def told() -> bool:
            return self.replicas is not None and [str(replica.url) for replica in self.replicas] == list(urls)

        await eventually(told, f"{urls} are told, not {self.replicas}")


@asynccontextmanager
async def asking(server: DnsServer, **settings: object) -> AsyncIterator[Listener]:
    listener = Listener(
        DNS(
            DnsDiscovery.model_validate({"shortest": 0.02, "longest": 0.1, "servers": [server.address], **settings}),
            Random(1),
        )
    )
    task = asyncio.create_task(listener.source.run(listener.tell))
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_addresses_come_and_go_with_the_answers() -> None:
    async with dns_server() as server:
        server.records[NAME, "A"] = ["10.0.0.2", "10.0.0.1"], 0
        async with asking(server, name=NAME, port=8000, kv_events_port=5557) as listener:
            await listener.until("http://10.0.0.1:8000/", "http://10.0.0.2:8000/")
            assert listener.replicas is not None
            assert listener.replicas[0].kv_events == "tcp://10.0.0.1:5557"
            server.records[NAME, "A"] = ["10.0.0.3"], 0
            await listener.until("http://10.0.0.3:8000/")


async def test_a_name_without_addresses_of_one_family_is_asked_for_those_of_the_other() -> None:
    async with dns_server() as server:
        server.records[NAME, "AAAA"] = ["fd00::7"], 0
        async with asking(server, name=NAME, port=8000) as listener:
            await listener.until("http://[fd00::7]:8000/")


async def test_service_records_say_the_ports_too() -> None:
    async with dns_server() as server:
        server.records[SRV, "SRV"] = [f"0 50 8001 a.{NAME}", f"0 50 8002 b.{NAME}"], 0
        server.records[f"a.{NAME}", "A"] = ["10.0.0.1"], 0
        server.records[f"b.{NAME}", "AAAA"] = ["fd00::2"], 0
        async with asking(server, name=SRV) as listener:
            await listener.until("http://10.0.0.1:8001/", "http://[fd00::2]:8002/")


async def test_a_name_that_is_gone_has_no_replicas() -> None:
    async with dns_server() as server:
        server.records[NAME, "A"] = ["10.0.0.1"], 0
        async with asking(server, name=NAME, port=8000) as listener:
            await listener.until("http://10.0.0.1:8000/")
            server.records.clear()
            await listener.until()


async def test_a_resolver_that_fails_changes_nothing() -> None:
    async with dns_server() as server:
        server.records[NAME, "A"] = ["10.0.0.1"], 0
        async with asking(server, name=NAME, port=8000, timeout=0.5) as listener:
            await listener.until("http://10.0.0.1:8000/")
            server.failing = True

            async def failed() -> bool:
                return listener.source.reports.faults["api"] > 1

            await eventually(failed, "failures are counted")
            await listener.until("http://10.0.0.1:8000/")
            assert listener.source.reports.trouble
            server.failing = False
            server.records[NAME, "A"] = ["10.0.0.2"], 0
            await listener.until("http://10.0.0.2:8000/")
            assert listener.source.reports.trouble is None


async def test_an_answer_is_good_for_as_long_as_its_ttl_says() -> None:
    async with dns_server() as server:
        server.records[NAME, "A"] = ["10.0.0.1"], 3600
        async with asking(server, name=NAME, port=8000, longest=3600) as listener:
            await listener.until("http://10.0.0.1:8000/")
            asked = server.asked
            await asyncio.sleep(0.2)  # ten times the shortest pause
            assert server.asked == asked
