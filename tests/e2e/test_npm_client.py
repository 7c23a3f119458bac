"""The official npm client against the gateway. Skipped where Node.js is not installed."""

import asyncio
import json
import shutil
from pathlib import Path

import httpx
import pytest
from processes import all_joined, eventually, gateway_process, replicas_process

HERE = Path(__file__).parent / "npm"
MODULES = Path(__file__).parents[2] / ".cache" / "npm"

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js and npm are not installed")


async def run(*command: str, cwd: Path) -> str:
    child = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await asyncio.wait_for(child.communicate(), 120)
    assert child.returncode == 0, errors.decode()
    return out.decode()


@pytest.fixture
async def client_folder() -> Path:
    """The client and its package, installed once."""
    MODULES.mkdir(parents=True, exist_ok=True)
    for file in ("package.json", "client.mjs"):
        shutil.copy(HERE / file, MODULES / file)
    if not (MODULES / "node_modules" / "openai").exists():
        await run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", cwd=MODULES)
    return MODULES


async def test_chat_stream_tools_errors_and_abort(client_folder: Path, tmp_path: Path) -> None:
    async with replicas_process(2, tmp_path, "--time-scale", "0.05") as urls:
        settings = {"replicas": [{"url": url} for url in urls]}
        async with gateway_process(settings, tmp_path) as gateway, httpx.AsyncClient() as http:
            await all_joined(gateway.url, 2)
            seen = json.loads(await run("node", "client.mjs", gateway.url, cwd=client_folder))

            async def quiet() -> bool:
                return not sum(engine["in_flight"] for engine in (await http.get(gateway.url + "/index")).json())

            await eventually(quiet, "the aborted request's lease is back")
    assert seen["models"] == ["sim"]
    assert seen["chat"]["tokens"] == 8
    assert seen["stream"] == {"text": seen["chat"]["text"], "usageChunks": 0}
    assert seen["tools"] == 4
    assert seen["error"] == {"status": 404, "code": "model_not_found", "param": "model"}
    assert seen["beforeAbort"] >= 3
