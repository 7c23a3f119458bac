"""The page in a real browser, against a gateway with simulated replicas under traffic."""

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, async_playwright, expect
from processes import all_joined, gateway_process, replicas_process

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


async def test_an_operator_reads_the_fleet_the_savings_and_a_decision_off_the_page(
    tmp_path: Path, browser: Browser
) -> None:
    async with replicas_process(2, tmp_path) as urls:
        settings = {
            "replicas": [{"url": url} for url in urls],
            "page": {"policy_switch": True},
            "shadow_policy": "round-robin",
        }
        async with (
            gateway_process(settings, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=30) as client,
        ):
            await all_joined(gateway.url, 2)
            page = await browser.new_page(viewport={"width": 1300, "height": 900})
            complaints = await watched(page, gateway.url)
            await expect(page.locator("#fleet tbody tr")).to_have_count(2)
            await expect(page.locator("#state")).to_have_text("2 engines, all well")
            await expect(page.locator("#decisions tbody tr")).to_have_count(0)

            request_id = await talk(client)  # the page learns of it by itself
            await expect(page.locator("#decisions tbody tr")).to_have_count(2)
            record = (await client.get(f"/decisions/{request_id}")).json()
            cached = record["outcome"]["cached_tokens"]
            assert cached == record["predicted"]["cached_tokens"] > 0
            saved = page.locator("#tiles > div", has_text="hit ratio")
            await expect(saved).to_contain_text(f"{cached} of ")

            share = cached / (await client.get("/snapshot")).json()["minute"]["prompt_tokens"]
            await expect(page.locator("#losses-bars")).to_contain_text(f"delivered {share:.1%}".replace("%", " %"))
            await expect(page.locator("#shadow-table")).to_contain_text("the same choice")

            await page.fill("#find-id", request_id)
            await page.press("#find-id", "Enter")
            told = page.locator("#decision")
            await expect(told).to_contain_text(f"went to {record['replica']} by kv-aware: {record['reason']}")
            await expect(told).to_contain_text(f"with {cached} of {record['outcome']['prompt_tokens']} tokens cached")
            await expect(told.locator("tr.chosen th")).to_have_text(record["replica"])

            await page.fill("#explain textarea", json.dumps(chat("The mill stands where the river turns. " * 20)))
            await page.click("#explain button")
            await expect(page.locator("#explained")).to_contain_text(f"It would go to {record['replica']} by kv-aware")
            await page.fill("#explain textarea", "{")
            await page.click("#explain button")
            await expect(page.locator("#explained .bad")).to_be_visible()
            assert [line for line in complaints if "400" not in line] == []

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
