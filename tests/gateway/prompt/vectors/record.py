"""Records what vLLM makes of the requests in the `.jsonl` files here.

    python record.py            # in a virtual environment that has vLLM

Each line is one request: why it is there, its endpoint, the server of `servers.json` it goes to, its body, and the
token ids that the engine encoded its prompts to, null where it answered with an error. To add one, add a line without
ids. What is called is vLLM's own request handling without weights, as `vllm launch render` serves it.
"""

import asyncio
import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from pooling_engine import PoolingEngine  # type: ignore[import-not-found]
from vllm import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.config import VllmConfig  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.app import build_app  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.render.app_state import init_render_app_state  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

HERE = Path(__file__).parent
SERVERS = (HERE / "servers.json").read_text()
MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
SERVED = ("--served-model-name", "m", "--max-model-len", "4096")
OPTIONS = (
    *SERVED,
    *("--enable-scale-out", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
)


class Engine:
    """A render server of one model."""

    def __init__(self, app: Any) -> None:
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://engine", timeout=60
        )

    @classmethod
    async def start(cls, model: Path, options: Sequence[str] = ()) -> "Engine":
        """model: its folder. options: of vLLM's command line."""
        parser = make_arg_parser(FlexibleArgumentParser())
        arguments = parser.parse_args(["--model", str(model), *OPTIONS, *options])
        engine = AsyncEngineArgs.from_cli_args(arguments)
        config = VllmConfig(
            model_config=engine.create_model_config(),
            structured_outputs_config=engine.create_structured_outputs_config(),
        )
        app = build_app(arguments, ("render",))
        await init_render_app_state(config, app.state, arguments)
        return cls(app)

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and decoded answer."""
        answer = await self._client.post(path, json=body)
        return answer.status_code, answer.json() if answer.content else None

    async def token_ids(self, endpoint: str, body: Mapping[str, Any]) -> list[list[int]] | None:
        """What the engine makes of a request for `endpoint`; None if it answers with an error."""
        path = endpoint if endpoint == "/tokenize" else f"{endpoint}/render"
        status, answer = await self.post(path, body)
        if status != 200:
            return None
        if endpoint == "/tokenize":
            return [answer["tokens"]]
        return [one["token_ids"] for one in (answer if isinstance(answer, list) else [answer])]


def model_folder(
    tokenizer: Path, config: Mapping[str, Any], templates: str | list[dict[str, str]] | None = None
) -> Path:
    """A new folder with a model's files but no weights."""
    folder = Path(tempfile.mkdtemp()) / "model"
    shutil.copytree(tokenizer, folder)
    (folder / "config.json").write_text(json.dumps(config))
    if templates is not None:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": templates}))
    return folder


async def start(server: Mapping[str, Any]) -> Engine | PoolingEngine:
    options = list(server.get("options", ()))
    if "template" in server:
        options += ["--chat-template", str(_template(server["template"]))]
    if "pooling" in server:
        folder = model_folder(HERE / "tokenizer", MODEL | server.get("config", {}))
        return PoolingEngine(server["pooling"], ["--model", str(folder), *SERVED, *options])
    named = [
        {"name": name, "template": _template(file).read_text()} for name, file in server.get("templates", {}).items()
    ]
    return await Engine.start(model_folder(HERE / "tokenizer", MODEL, named or None), options)


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
