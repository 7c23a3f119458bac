"""Replicas behind a name: SRV records where no port is set, else A and AAAA; asked again when the answer's TTL ends."""

import asyncio
import logging
from collections.abc import Sequence
from random import Random
from time import time

import dns.asyncresolver
import dns.exception
import dns.resolver

from gateway.config import ReplicaConfig
from gateway.config.discovery import DnsDiscovery
from gateway.fleet.discovery.source import Backoff, Reports, Tell

logger = logging.getLogger(__name__)

_TYPES = {"IPv4": ("A", "AAAA"), "IPv6": ("AAAA", "A")}


class DNS:
    """Asks for one name. A name that has no records has no replicas; a resolver that can't say changes nothing."""

    def __init__(self, settings: DnsDiscovery, random: Random) -> None:
        self.name = f"dns {settings.name}"
        self.reports = Reports()
        self._settings = settings
        self._backoff = Backoff(settings.shortest, settings.longest, random)
        self._resolver = dns.asyncresolver.Resolver(configure=not settings.servers)
        if settings.servers:
            self._resolver.nameservers = [_nameserver(server) for server in settings.servers]
        self._resolver.lifetime = settings.timeout

    async def run(self, tell: Tell) -> None:
        """Ask until cancelled."""
        failures = 0
        while True:
            try:
                replicas, ttl = await self._look_up()
            except dns.exception.DNSException as exc:
                failures += 1
                if self.reports.failed(self._settings.name, "api", str(exc)):
                    logger.warning("discovery: %s: %s", self.name, exc)
                await asyncio.sleep(self._backoff.pause(failures))
                continue
            failures = 0
            self.reports.succeeded(self._settings.name, time())
            tell(replicas)
            await asyncio.sleep(min(max(ttl, self._settings.shortest), self._settings.longest))

    async def _look_up(self) -> tuple[list[ReplicaConfig], float]:
        """The replicas, and for how many seconds that holds. Raises DNSException."""
        settings = self._settings
        if settings.port is not None:
            addresses, ttl = await self._addresses(settings.name)
            return [self._replica(address, settings.port) for address in addresses], ttl
        answer = await self._ask(settings.name, "SRV")
        if answer is None:
            return [], settings.longest
        places = sorted({(str(record.target), int(record.port)) for record in answer})
        found = await asyncio.gather(*(self._addresses(target) for target, _ in places))
        replicas = [
            self._replica(address, port)
            for (_, port), (addresses, _) in zip(places, found, strict=True)
            for address in addresses[:1]  # all of a target's addresses are one server's
        ]
        return replicas, min(_ttl(answer), *(ttl for _, ttl in found), settings.longest)

    async def _addresses(self, name: str) -> tuple[Sequence[str], float]:
        """The addresses of the preferred family, of the other one where there are none."""
        for kind in _TYPES[self._settings.family]:
            answer = await self._ask(name, kind)
            if answer is not None:
                return sorted(str(record.address) for record in answer), _ttl(answer)
        return (), self._settings.longest

    async def _ask(self, name: str, kind: str) -> dns.resolver.Answer | None:
        try:
            return await self._resolver.resolve(name, kind, search=True)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return None

    def _replica(self, address: str, port: int) -> ReplicaConfig:
        host = f"[{address}]" if ":" in address else address
        events, replay = self._settings.kv_events_port, self._settings.kv_replay_port
        return ReplicaConfig.model_validate(
            {
                "url": f"{self._settings.scheme}://{host}:{port}",
                "kv_events": events and f"tcp://{host}:{events}",
                "kv_replay": replay and f"tcp://{host}:{replay}",
            }
        )


def _ttl(answer: dns.resolver.Answer) -> float:
    rrset = answer.rrset
    return float(rrset.ttl) if rrset is not None else 0.0


def _nameserver(server: str) -> dns.nameserver.Do53Nameserver:
    address, _, port = server.rpartition(":")
    return dns.nameserver.Do53Nameserver(address.strip("[]"), int(port))
