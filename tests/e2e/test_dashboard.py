"""The page in a real browser, against a gateway with simulated replicas under traffic."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import httpx
import pytest
import uvicorn
from fake_replica import fake_replica
from fastapi import FastAPI
from playwright.async_api import Browser, Page, async_playwright, expect
from processes import all_joined, free_port, gateway_process, replicas_process

from bench.page import DECISIONS, ENGINES, World
from gateway.decisions import CANDIDATES
from gateway.page.routes import routes

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        await browser.close()


def chat(*texts: str) -> dict[str, object]:
    return {"model": "sim", "max_tokens": 2, "messages": [{"role": "user", "content": text} for text in texts]}


async def talk(client: httpx.AsyncClient) -> str:
    """Two turns of a conversation. Returns the second one's request id."""
    first = "The mill stands where the river turns. " * 20
    for text in (chat(first), chat(first, "And then?")):
        answer = await client.post("/v1/chat/completions", json=text)
        assert answer.status_code == 200
    request_id: str = answer.headers["x-request-id"]
    return request_id


async def watched(page: Page, url: str) -> list[str]:
    """Open the page. Returns where its complaints go."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(url + "/dashboard")
    return complaints


async def test_who_knows_vllm_finds_all_answers_on_the_page(tmp_path: Path, browser: Browser) -> None:
    """Why did request X go to replica B? How much did the cache save in the last minute? Whose events are late? Would
    shared storage pay?"""
    async with replicas_process(2, tmp_path) as urls, fake_replica() as mute:
        settings = {
            "replicas": [*({"url": url} for url in urls), {"url": mute.url, "kv_events": "tcp://127.0.0.1:9"}],
            "page": {"policy_switch": True},
            "shadow_policy": "round-robin",
        }
        async with (
            gateway_process(settings, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=30) as client,
        ):
            await all_joined(gateway.url, 3)
            page = await browser.new_page(viewport={"width": 1300, "height": 900})
            complaints = await watched(page, gateway.url)
            await expect(page.locator("#fleet tbody tr")).to_have_count(3)
            late = mute.url.removeprefix("http://")
            await expect(page.locator("#state")).to_contain_text(f"events late or missing: {late}")
            await page.check("#fleet-faults")
            await expect(page.locator("#fleet tbody tr")).to_have_count(1)
            await expect(page.locator("#fleet tbody tr")).to_contain_text("none told: its cache is unknown")
            await page.uncheck("#fleet-faults")
            await expect(page.locator("#l2-verdict")).to_contain_text("loading pays for models with less than 92 kB")
            await expect(page.locator("#decisions tbody tr")).to_have_count(0)

            request_id = await talk(client)  # the page learns of it by itself
            await expect(page.locator("#decisions tbody tr")).to_have_count(2)
            record = (await client.get(f"/decisions/{request_id}")).json()
            cached = record["outcome"]["cached_tokens"]
            assert cached == record["predicted"]["cached_tokens"] > 0
            saved = page.locator("#tiles > div", has_text="hit ratio")
            await expect(saved).to_contain_text(f"{cached} of ")
            await expect(page.locator("#tiles > div", has_text="saved by cache")).not_to_contain_text("0 s")

            share = cached / (await client.get("/snapshot")).json()["minute"]["prompt_tokens"]
            await expect(page.locator("#losses-bars")).to_contain_text(f"delivered {share:.1%}".replace("%", " %"))
            await expect(page.locator("#shadow-table")).to_contain_text("the same choice")

            await page.click("#decisions tbody tr:first-child button")
            told = page.locator("#decision")
            await expect(told).to_contain_text(f"went to {record['replica']} by kv-aware: {record['reason']}")
            await expect(told).to_contain_text(f"with {cached} of {record['outcome']['prompt_tokens']} tokens cached")
            await expect(told.locator("tr.chosen th")).to_have_text(record["replica"])
            chosen, other = record["candidates"]
            await expect(told).to_contain_text(f"{chosen['replica']} has {cached} in GPU memory, leaves ")
            await expect(told).to_contain_text(f"dearer all told: {other['replica']} has nothing of the prompt")
            await page.fill("#find-id", "nobody")
            await page.press("#find-id", "Enter")
            await expect(told.locator(".bad")).to_be_visible()

            await page.fill("#explain textarea", json.dumps(chat("The mill stands where the river turns. " * 20)))
            await page.click("#explain button")
            await expect(page.locator("#explained")).to_contain_text(f"It would go to {record['replica']} by kv-aware")
            await page.fill("#explain textarea", "{")
            await page.click("#explain button")
            await expect(page.locator("#explained .bad")).to_be_visible()
            assert [line for line in complaints if "400" not in line and "404" not in line] == []

            await page.select_option("#policy", "round-robin")
            await page.locator("#policy").blur()
            await talk(client)
            await expect(page.locator("#decisions tbody tr").first).to_contain_text("next in turn")


async def test_the_page_fits_a_narrow_screen_and_is_walked_with_the_keyboard(tmp_path: Path, browser: Browser) -> None:
    async with replicas_process(1, tmp_path) as urls:
        settings = {"replicas": [{"url": url} for url in urls]}
        async with gateway_process(settings, tmp_path) as gateway:
            page = await browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
            complaints = await watched(page, gateway.url)
            await expect(page.locator("#fleet tbody tr")).to_have_count(1)
            await expect(page.locator("#state")).to_have_text("1 engines, all well")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360
            dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert max(int(part) for part in dark.removeprefix("rgb(").removesuffix(")").split(",")) < 60
            await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.textContent") == "Skip to content"
            await expect(page.locator("#policy")).to_be_disabled()  # nobody allowed to switch it
            async with httpx.AsyncClient(base_url=gateway.url) as client:
                assert (await client.post("/policy", json={"policy": "round-robin"})).status_code == 403
            assert complaints == []


def test_the_page_is_small() -> None:
    static = Path(__file__).parents[2] / "gateway" / "page" / "static"
    assert sum(file.stat().st_size for file in static.iterdir()) < 300_000


@asynccontextmanager
async def page_of_a_big_fleet() -> AsyncIterator[tuple[World, str]]:
    """The page's paths on a fleet of 256 engines among which 500 requests a second end. Gives the world and the URL."""
    world, app, port = World(Random(1)), FastAPI(), free_port()
    app.include_router(routes(world.snapshots, world.decisions, None, lambda: server.should_exit))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))

    async def traffic() -> None:
        while True:
            world.clock = time.time()
            world.requests(10)
            await asyncio.sleep(10 / DECISIONS)

    async with asyncio.TaskGroup() as group:
        serving, busy = group.create_task(server.serve()), group.create_task(traffic())
        yield world, f"http://127.0.0.1:{port}"
        server.should_exit = True
        await serving
        busy.cancel()


async def test_the_page_answers_while_256_engines_get_500_requests_a_second_and_does_not_grow(browser: Browser) -> None:
    async with page_of_a_big_fleet() as (world, url):
        page = await browser.new_page(viewport={"width": 1300, "height": 900})
        complaints = await watched(page, url)
        rows, newest = page.locator("#fleet tbody tr"), page.locator("#decisions tbody tr").first
        await expect(rows).to_have_count(ENGINES)
        await expect(page.locator("#decisions tbody tr")).to_have_count(20)
        elements = await page.locator("*").count()
        for _ in range(3):
            key = await newest.get_attribute("data-key") or ""
            await expect(newest).not_to_have_attribute("data-key", key)
        assert await page.locator("*").count() < elements + 40  # lines of charts that had nothing to show at first
        last = world.engines[-1].id.replica
        await page.fill("#fleet-filter", last)
        await expect(rows).to_have_count(1)
        await page.check("#hold")
        key = await newest.get_attribute("data-key") or ""
        await newest.locator("button").click()
        await expect(page.locator("#decision")).to_contain_text(
            f"{ENGINES - 12} more candidates, all dearer", timeout=20_000
        )
        await expect(newest).to_have_attribute("data-key", key)
        assert len(world.decisions.recent(2000)) <= CANDIDATES // ENGINES
        assert complaints == []
        await page.close()
