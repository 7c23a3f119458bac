"""Head and body of a short answer are one write, and nothing is held longer than a turn of the loop."""

import asyncio
from typing import Any

from gateway.relay.cork import Cork

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def corked() -> tuple[Cork, Wire]:
    wire = Wire()
    return Cork(wire, asyncio.get_running_loop()), wire


async def test_a_head_waits_for_its_body() -> None:
    cork, wire = await corked()
    cork.write(HEAD)
    assert wire.written == []
    cork.write(b"body")
    cork.write(b"more")
    assert wire.written == [HEAD + b"body", b"more"]
    await asyncio.sleep(0)
    assert len(wire.written) == 2


async def test_a_head_alone_goes_out_with_the_turn_of_the_loop() -> None:
    cork, wire = await corked()
    cork.write(HEAD)
    await asyncio.sleep(0)
    assert wire.written == [HEAD]


async def test_closing_sends_what_was_held() -> None:
    cork, wire = await corked()
    cork.write(HEAD)
    cork.close()
    assert (wire.written, wire.closed, cork.is_closing()) == ([HEAD], True, True)
    await asyncio.sleep(0)
    assert wire.written == [HEAD]


async def test_two_answers_in_one_turn_stay_in_order() -> None:
    cork, wire = await corked()
    for data in (HEAD, b"a", HEAD, b"b"):
        cork.write(data)
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"a", HEAD + b"b"]
