import httpx
import pytest

from loadtest.processes import ChildFailed, consecutive_free_ports, python

SERVER = ["-m", "http.server", "--bind", "127.0.0.1"]


async def test_a_child_runs_within_the_context_and_no_longer() -> None:
    port = consecutive_free_ports(1)
    url = f"http://127.0.0.1:{port}/"
    async with httpx.AsyncClient() as client:
        async with python([*SERVER, str(port)], [url]):
            assert (await client.get(url)).status_code == 200
        with pytest.raises(httpx.HTTPError):
            await client.get(url)


async def test_a_child_that_ends_early_is_reported_with_what_it_wrote() -> None:
    with pytest.raises(ChildFailed, match="ended with status 3") as failed:
        async with python(["-c", "print('out of luck'); raise SystemExit(3)"], ["http://127.0.0.1:9/"]):
            pass
    assert "out of luck" in failed.value.__notes__[0]


async def test_a_failure_within_the_context_shows_what_the_child_wrote() -> None:
    port = consecutive_free_ports(1)
    with pytest.raises(ValueError, match="mine") as failed:
        async with python([*SERVER, str(port)], [f"http://127.0.0.1:{port}/"]):
            raise ValueError("mine")
    assert "GET /" in failed.value.__notes__[0]
