"""`make fuzz`: whatever clients and operators send, within the schemas or beside them, nothing answers 5xx.

schemathesis makes the requests: from the schema that the operators' side has of itself, and from one of the clients'
paths that says what their bodies look like.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.api.paths import SCORED, UNSCORED
from loadtest.processes import consecutive_free_ports, python

EXAMPLES = 20
"""for each path and kind of request"""

_TEXT = {"type": "string"}
_MESSAGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": {}},
        "required": ["role"],
    },
}
_BODY: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "model": {"anyOf": [{"enum": ["sim"]}, _TEXT]},
        "messages": _MESSAGES, "prompt": {}, "input": {}, "stream": {"type": "boolean"}, "stream_options": {},
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": 8}, "n": {}, "kv_transfer_params": {},
        "cache_salt": {}, "previous_response_id": {}, "tools": {}, "user": {}, "metadata": {},
    },
    "required": ["model"],
}  # fmt: skip


def clients_schema() -> Mapping[str, object]:
    """OpenAPI of what clients call."""
    json_body = {"requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}}}
    answers = {"responses": {"default": {"description": "anything but 5xx"}}}
    paths: dict[str, object] = {path: {"post": {**json_body, **answers}} for path in sorted(SCORED | UNSCORED)}
    id = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    paths["/v1/models"] = {"get": answers}
    paths["/v1/responses/{id}"] = {"get": {"parameters": [id], **answers}}
    paths["/v1/responses/{id}/cancel"] = {"post": {"parameters": [id], **answers}}
    return {"openapi": "3.1.0", "info": {"title": "clients", "version": "1"}, "paths": paths}


async def fuzz() -> int:
    """Run schemathesis on both sides. Returns the worst exit status."""
    port = consecutive_free_ports(4)
    gateway, replica = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    simulated = [
        "-m",
        "gateway",
        "replica",
        "--port",
        str(port + 1),
        "--kv-port",
        str(port + 2),
        "--time-scale",
        "0.01",
    ]
    serving = ["-m", "gateway", "serve", "--host", "127.0.0.1", "--port", str(port), "--replica", replica]
    with TemporaryDirectory() as folder:
        clients = Path(folder) / "clients.json"
        clients.write_text(json.dumps(clients_schema()))
        async with python(simulated, [replica + "/health"]), python(serving, [gateway + "/readyz"]):
            return max([await _run(schema, gateway) for schema in (gateway + "/openapi.json", str(clients))])


async def _run(schema: str, gateway: str) -> int:
    command = [
        "run", schema, "--url", gateway, "--checks", "not_a_server_error", "--max-examples", str(EXAMPLES),
        "--phases", "examples,coverage,fuzzing", "--seed", "1", "--suppress-health-check", "all",
    ]  # fmt: skip
    child = await asyncio.create_subprocess_exec(str(Path(sys.executable).with_name("schemathesis")), *command)
    return await child.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(fuzz()))
