"""Commands and code of the documents, run as they stand, with the addresses of replicas that are there."""

import asyncio
import contextlib
import io
import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import blocks
from processes import free_port, process, replicas_process

from gateway.__main__ import main
from loadtest.traces.generate import Mix, generate

ROOT = Path(__file__).parents[2]
README, INDEX = ROOT / "README.md", ROOT / "docs" / "index.md"


def command(page: Path, begin: str) -> list[str]:
    """The words of the one command in it that begins so, without its comment."""
    (line,) = re.findall(rf"^ *(?:\.venv/bin/)?({begin}.*?)(?: +#.*)?$", page.read_text(), re.M)
    return shlex.split(line)


def code(page: Path) -> str:
    """Its Python code that calls a client."""
    (block,) = (block for block in blocks(page) if "import OpenAI" in block)
    return textwrap.dedent(block)


async def test_a_gateway_started_as_the_pages_say_serves_the_clients_that_they_show(tmp_path: Path) -> None:
    port = free_port()
    assert command(INDEX, "kvgate serve --replica") == command(README, "kvgate serve --replica")
    async with replicas_process(2, tmp_path) as urls:
        given = iter(urls)
        words = command(README, "kvgate serve --replica")[1:]
        arguments = [next(given) if word.startswith("http://") else word for word in words]
        arguments += ["--host", "127.0.0.1", "--port", str(port)]
        async with process(arguments, f"http://127.0.0.1:{port}", "/readyz", tmp_path / "log") as gateway:
            for page in (README, INDEX):
                shown = re.sub(r'model="[^"]*"', 'model="sim"', code(page))
                names: dict[str, object] = {}
                await asyncio.to_thread(exec, shown.replace("http://localhost:8080", gateway.url), names)
                assert names["client"]
            await explained(gateway.url)


async def explained(url: str) -> None:
    """The page's curl line."""
    curl = command(README, "curl localhost:8080/explain")
    words = [word.replace("localhost:8080", url).replace('"model": "..."', '"model": "sim"') for word in curl]
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    asked = await asyncio.create_subprocess_exec(*words, "--silent", stdout=asyncio.subprocess.PIPE)
    out, _ = await asked.communicate()
    assert json.loads(out)["policy"] == "kv-aware"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Path]:
    with contextlib.chdir(tmp_path):
        yield tmp_path


def test_a_report_is_made_as_the_page_says(there: Path) -> None:
    with (there / "traffic.jsonl").open("w") as lines:
        for one in generate("multi-turn", Mix(requests=60), 1).requests:
            names = list(one.blocks[: one.prompt_tokens // 64])
            lines.write(json.dumps({"t": one.arrival, "prompt": one.prompt_tokens, "block": 64, "names": names}) + "\n")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(command(README, "kvgate report traffic.jsonl")[1:]) == 0
    assert "kv-aware" in out.getvalue()
    assert "<svg" in (there / "report.html").read_text()


def test_every_target_of_make_that_a_page_names_is_one() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    pages = [README, ROOT / "AGENTS.md", *(ROOT / "docs").glob("*.md")]
    named = {
        name for page in pages for name in re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(), re.M)
    }  # fmt: skip
    assert len(named) > 5
    assert named - targets == set()
