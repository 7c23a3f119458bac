"""Records what vLLM makes of the requests in the `.jsonl` files here.

    python record.py            # in a virtual environment that has vLLM

Each line is one request: why it is there, its endpoint, the server of `servers.json` it goes to, its body, and the
token ids that the engine encoded its prompts to, null where it answered with an error. To add one, add a line without
ids.
"""

import asyncio
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine import Engine

HERE = Path(__file__).parent
SERVERS = (HERE / "servers.json").read_text()


async def start(server: Mapping[str, Any]) -> Engine:
    options = list(server.get("options", ()))
    if "template" in server:
        options += ["--chat-template", str(_template(server["template"]))]
    named = [
        {"name": name, "template": _template(file).read_text()} for name, file in server.get("templates", {}).items()
    ]
    return await Engine.start(HERE / "tokenizer", options, named or None)


def _template(name: str) -> Path:
    return HERE / "templates" / f"{name}.jinja"


async def render(vectors: Iterable[dict[str, Any]]) -> None:
    """Put the engine's ids into the vectors."""
    servers = json.loads(SERVERS)
    engines = {name: await start(server) for name, server in servers.items()}
    for vector in vectors:
        ids = await engines[vector["server"]].token_ids(vector["endpoint"], {"model": "m", **vector["body"]})
        if ids != vector.get("ids"):
            print(f"{vector['endpoint']}, {vector['server']}, {vector['why']}: {'refused' if ids is None else ids}")
        vector["ids"] = ids


def main() -> None:
    files = {path: [json.loads(line) for line in path.open()][1:] for path in sorted(HERE.glob("*.jsonl"))}
    asyncio.run(render(vector for vectors in files.values() for vector in vectors))
    head = {"engine": f"vLLM {importlib.metadata.version('vllm')}"}
    for path, vectors in files.items():
        path.write_text("".join(json.dumps(line) + "\n" for line in (head, *vectors)))


if __name__ == "__main__":
    main()
