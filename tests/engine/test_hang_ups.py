"""A client that leaves frees its place on the engine and in the gateway's books at once."""

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack

import httpx
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.prompts import ask
from tests.engine.vllm_cpu.server import MODEL, VllmServer
from tests.engine.waiting import wait_until
from tests.engine.witness import Witness

CLIENTS = 12
MORE_THAN_TWO_ENGINES_RUN = 40
TOKENS = 3000
"""far more than an engine makes while a test waits"""
GONE = 10.0
"""seconds"""


def busy(control: httpx.Client, replica: VllmServer) -> int:
    """Requests that an engine runs or has in its queue."""
    lines = control.get(f"{replica.url}/metrics").raise_for_status().text.splitlines()
    names = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(names))


def long_chat(number: int) -> list[ChatCompletionMessageParam]:
    return ask(f"hang-up {number}", 100)


def send(gateway: GatewayServer, number: int, stream: bool) -> socket.socket:
    """Ask for a long chat and return the socket, with nothing read from it."""
    body = json.dumps(
        {
            "model": MODEL,
            "messages": long_chat(number),
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "stream": stream,
        }
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
    connection.sendall(head.encode() + body)
    return connection


def read_some_chunks(connection: socket.socket) -> None:
    received = b""
    while received.count(b"data: ") < 3:
        piece = connection.recv(65536)
        assert piece, received
        received += piece


def read_nothing(connection: socket.socket) -> None:
    """Leave before the answer's headers, which come with the whole of an answer that is not streamed."""


@pytest.mark.parametrize(
    ("stream", "read"), [(False, read_nothing), (True, read_some_chunks)], ids=["before headers", "mid-stream"]
)
def test_a_hang_up_frees_engine_and_lease(
    witness: Witness, control: httpx.Client, stream: bool, read: Callable[[socket.socket], None]
) -> None:
    gateway, replicas = witness.gateway, witness.replicas
    with ExitStack() as clients:
        connections = [clients.enter_context(send(gateway, number, stream)) for number in range(CLIENTS)]
        wait_until("all at an engine", lambda: sum(busy(control, replica) for replica in replicas) == CLIENTS)
        assert gateway.metric("kvgate_in_flight") == CLIENTS
        for connection in connections:
            read(connection)
    wait_until("no lease out", lambda: gateway.metric("kvgate_in_flight") == 0, GONE)
    wait_until("no request on an engine", lambda: all(busy(control, replica) == 0 for replica in replicas), GONE)
    for number in range(CLIENTS):
        witness.chat(long_chat(number))
    assert witness.settle() == {Verdict.EXACT: CLIENTS}


def test_a_prompt_that_never_left_the_queue_is_not_taken_for_cached(witness: Witness, control: httpx.Client) -> None:
    gateway, replicas = witness.gateway, witness.replicas

    def all_at_an_engine(count: int) -> None:
        wait_until("all at an engine", lambda: sum(busy(control, replica) for replica in replicas) == count)

    with ExitStack() as clients:
        for number in range(100, 100 + MORE_THAN_TWO_ENGINES_RUN):
            clients.enter_context(send(gateway, number, stream=False))
        all_at_an_engine(MORE_THAN_TWO_ENGINES_RUN)
        clients.enter_context(send(gateway, 200, stream=False))
        all_at_an_engine(MORE_THAN_TWO_ENGINES_RUN + 1)
    wait_until("no request on an engine", lambda: all(busy(control, replica) == 0 for replica in replicas), GONE)
    witness.chat(long_chat(200))
    assert witness.last.reported == 0
    assert witness.settle() == {Verdict.EXACT: 1}
