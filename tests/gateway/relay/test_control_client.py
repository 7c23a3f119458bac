import httpx
import pytest

from gateway.relay.credentials import Transport


class Lost(httpx.AsyncHTTPTransport):
    """What a socket does that is lost while it is asked for its properties."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AttributeError("'NoneType' object has no attribute 'getpeername'")


class Guarded(Transport, Lost):
    pass


async def test_a_connection_that_is_lost_while_it_is_made_is_a_fault_of_the_network() -> None:
    async with httpx.AsyncClient(transport=Guarded()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:9/health")
