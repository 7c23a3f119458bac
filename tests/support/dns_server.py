"""A DNS server with the records that a test gives it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset


@dataclass
class DnsServer(asyncio.DatagramProtocol):
    """records: (name, type) -> values and TTL. failing: answer SERVFAIL."""

    address: str = ""
    records: dict[tuple[str, str], tuple[list[str], int]] = field(default_factory=dict)
    failing: bool = False
    asked: int = 0
    transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self.transport is not None
        self.asked += 1
        query = dns.message.from_wire(data)
        question = query.question[0]
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        if self.failing:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif (name, kind) in self.records:
            values, ttl = self.records[name, kind]
            answer.answer.append(dns.rrset.from_text(name, ttl, "IN", kind, *values))
        elif not any(known == name for known, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self.transport.sendto(answer.to_wire(), addr)


@contextlib.asynccontextmanager
async def dns_server() -> AsyncIterator[DnsServer]:
    """A DNS server until left."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(DnsServer, ("127.0.0.1", 0))
    server.address = "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])
    try:
        yield server
    finally:
        transport.close()
