"""How the replica is served that shows in its prompts all that a request says, and a gateway in front of it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from openai import OpenAI

from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.vllm_cpu.server import MODEL, VllmServer

ADAPTER = "mylora"
TEMPLATE = Path(__file__).parent / "templates" / "telling.jinja"
PERSONA = {"persona": "a helper"}
SERVED: Mapping[str, object] = {"chat_template": str(TEMPLATE), "default_chat_template_kwargs": PERSONA}
"""what a gateway's configuration says of the model"""


def arguments(adapter: Path) -> tuple[str, ...]:
    """The replica's command line: the template, an adapter of the model, and render routes."""
    return (
        *("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"{ADAPTER}={adapter}"),
        *("--chat-template", str(TEMPLATE), "--default-chat-template-kwargs", json.dumps(PERSONA)),
        "--enable-scale-out",
    )


@contextmanager
def asking(
    replica: VllmServer, port: int, served: Mapping[str, object], folder: Path, verdicts: Counter[Verdict]
) -> Iterator[Asker]:
    """A client of a gateway of its own. served: what its configuration says of the model."""
    settings = {"replicas": [{"url": replica.url}], "models": {MODEL: served}}
    with (
        GatewayServer(port, settings, folder) as gateway,
        OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60.0) as client,
        httpx.Client(timeout=60.0) as control,
    ):
        yield Asker(gateway, replica, client, control, verdicts)
