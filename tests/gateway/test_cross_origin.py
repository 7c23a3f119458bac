"""Web pages that call the gateway: by what browsers send, and in one."""

import asyncio
import hashlib
import shutil

import httpx
import pytest
from fake_replica import fake_replica
from gateway_here import gateway_here
from playwright.async_api import async_playwright

CHAT = "/v1/chat/completions"
PAGE = "https://chat.example.com"
ADMISSION = {"keys": [{"name": "a", "sha256": hashlib.sha256(b"key").hexdigest()}]}
ASKS = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-os",
}
KEY = {"authorization": "Bearer key"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
SCRIPT = """
async url => {
    const ask = async (path, key) => {
        const headers = {"content-type": "application/json", "authorization": "Bearer " + key};
        const body = JSON.stringify({model: "fake", messages: [], stream: true, behaviour: "stream a while"});
        const answer = await fetch(url + path, {method: "POST", headers, body});
        const text = await answer.text();
        return [answer.status, answer.headers.get("x-request-id").length, text.includes("[DONE]")];
    };
    const hidden = await fetch(url + "/metrics").then(answer => answer.status, error => error.name);
    return [await ask("/v1/chat/completions", "key"), await ask("/v1/chat/completions", "other"), hidden];
}
"""


def opened(answer: httpx.Response) -> str | None:
    origin: str | None = answer.headers.get("access-control-allow-origin")
    return origin


@pytest.mark.parametrize("origins", [[PAGE, "https://other.example.com"], ["*"]])
async def test_a_page_may_ask_and_read_whatever_is_answered(origins: list[str]) -> None:
    settings = {"listen": {"allowed_origins": origins}, "admission": ADMISSION}
    said = PAGE if origins[0] == PAGE else "*"
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        before = await here.client.options(here.url + CHAT, headers={"origin": PAGE, **ASKS})
        assert (before.status_code, opened(before)) == (200, said)
        assert before.headers["access-control-allow-headers"] == ASKS["access-control-request-headers"]
        for key, behaviour, stream, status in (
            ("key", "answer", False, 200), ("key", "stream a while", True, 200),
            ("key", "die before headers", False, 502), ("other", "answer", False, 401),
        ):  # fmt: skip
            body = {"model": "fake", "messages": [], "stream": stream, "behaviour": behaviour}
            headers = {"origin": PAGE, "authorization": f"Bearer {key}"}
            answer = await here.client.post(here.url + CHAT, json=body, headers=headers)
            assert (answer.status_code, opened(answer)) == (status, said)
            assert answer.headers["access-control-expose-headers"] == "*"
        assert opened(await here.client.get(here.url + "/v1/models", headers={"origin": PAGE, **KEY})) == said
        assert not [head for head in fake.heads if "origin" in head], "the engine would open its answers to others"


async def test_other_pages_may_not_and_what_operators_ask_stays_closed() -> None:
    settings = {"listen": {"allowed_origins": [PAGE]}}
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}], **settings}) as here:
        for path, origin in ((CHAT, "https://evil.example.com"), ("/metrics", PAGE)):
            before = await here.client.options(here.url + path, headers={"origin": origin, **ASKS})
            assert (before.is_success, opened(before)) == (False, None)
            assert opened(await here.client.get(here.url + path, headers={"origin": origin})) is None


async def test_no_page_may_ask_where_nothing_is_set() -> None:
    async with fake_replica() as fake, gateway_here({"replicas": [{"url": fake.url}]}) as here:
        before = await here.client.options(here.url + CHAT, headers={"origin": PAGE, **ASKS})
        assert (before.status_code, opened(before)) == (404, None)
        answer = await here.client.get(here.url + "/v1/models", headers={"origin": PAGE})
        assert (answer.status_code, opened(answer)) == (200, None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
async def test_a_page_in_a_browser_reads_streams_refusals_and_headers() -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    pages = await asyncio.start_server(page, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{pages.sockets[0].getsockname()[1]}"
    settings = {"listen": {"allowed_origins": [origin]}, "admission": ADMISSION}
    async with (
        fake_replica() as fake,
        gateway_here({"replicas": [{"url": fake.url}], **settings}) as here,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        tab = await browser.new_page()
        await tab.goto(origin)
        assert await tab.evaluate(SCRIPT, here.url) == [[200, 32, True], [401, 32, False], "TypeError"]
        await browser.close()
    pages.close()
