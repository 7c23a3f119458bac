"""What passes through a gateway is not kept in it, however long or slow."""

import asyncio
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from fake_replica import FakeReplica, fake_replica
from processes import Running, all_joined, eventually, gateway_process

READERS = 1000
BUFFER = 16_384
PER_READER = BUFFER + 262_144
"""bytes: the setting, and what is on its way: a read of a socket, a buffer of the client's transport, the objects"""
PIECE = bytes(range(256)) * 4096
PIECES = 300
FORM = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
EVENT = b"data: " + b"x" * 8000 + b"\n\n"
END = b"\r\n--xyz--\r\n"


@contextmanager
def many_files() -> Iterator[None]:
    """As many open files as this system allows, for processes that are started within too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def peak(pid: int) -> int:
    """Bytes of memory that a process has had at most since `forget_peak`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def forget_peak(pid: int) -> int:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak(pid)


def address(gateway: Running) -> tuple[str, int]:
    host, port = gateway.url.removeprefix("http://").split(":")
    return host, int(port)


async def upload(gateway: Running, replica: FakeReplica) -> None:
    length, taken = len(FORM + END) + PIECES * len(PIECE), 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal taken
        while taken < length:
            taken += len(await reader.read(1_048_576))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        return True

    replica.takes = take
    reader, writer = await asyncio.open_connection(*address(gateway))
    head = b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=xyz\r\n"
    writer.write(head + b"connection: close\r\ncontent-length: %d\r\n\r\n" % length + FORM)
    for _ in range(PIECES):
        writer.write(PIECE)
        await writer.drain()
    writer.write(END)
    assert (await asyncio.wait_for(reader.read(), 60.0)).startswith(b"HTTP/1.1 200 ")
    writer.close()
    assert taken == length


def stuck_reader(gateway: Running) -> socket.socket:
    """A client that asks for a stream and reads nothing of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(address(gateway))
    body = json.dumps({"model": "fake", "messages": [], "stream": True}).encode()
    client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    return client


async def test_300_mb_of_upload_and_1000_slow_readers_take_a_bounded_memory(tmp_path: Path) -> None:
    settings = {"policy": "round-robin", "limits": {"buffer_bytes": BUFFER}, "probing": {"timeout": 60}}
    with many_files(), ExitStack() as closing:
        async with (
            fake_replica() as one,
            gateway_process({"replicas": [{"url": one.url}], **settings}, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as operator,
        ):
            await all_joined(gateway.url, 1)
            before = forget_peak(gateway.process.pid)
            await upload(gateway, one)
            assert peak(gateway.process.pid) - before < 20_000_000

            sent = 0

            async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
                nonlocal sent
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                while True:
                    writer.write(EVENT)
                    await writer.drain()
                    sent += len(EVENT)

            one.script = flood
            before = forget_peak(gateway.process.pid)
            clients = [closing.enter_context(stuck_reader(gateway)) for _ in range(READERS)]
            was = -1

            async def stands_still() -> bool:
                nonlocal was
                before, was = was, sent
                await asyncio.sleep(0.3)
                return sent == before and one.open == READERS

            await eventually(stands_still, "no replica can send any more")
            assert peak(gateway.process.pid) - before < READERS * PER_READER
            for path in ("/healthz", "/readyz"):
                assert (await operator.get(path)).status_code == 200
            for client in clients:
                client.close()

            async def nothing_is_left() -> bool:
                return not one.open and not any(row["in_flight"] for row in (await operator.get("/index")).json())

            await eventually(nothing_is_left, "leases and connections are back")
