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

import yaml

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
        "model": {"enum": ["sim"]},
        "messages": _MESSAGES, "prompt": {}, "input": {}, "stream": {"type": "boolean"}, "stream_options": {},
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": 8}, "n": {}, "kv_transfer_params": {},
        "cache_salt": {}, "previous_response_id": {}, "tools": {}, "user": {}, "metadata": {},
    },
    "required": ["model"],
}  # fmt: skip

_FORM: Mapping[str, object] = {
    "type": "object",
    "properties": {"model": {"enum": ["sim"]}, "file": {"type": "string", "format": "binary"}, "language": _TEXT},
    "required": ["model", "file"],
}


def clients_schema() -> Mapping[str, object]:
    """OpenAPI of what clients call."""
    answers = {"responses": {"default": {"description": "anything but 5xx"}}}
    paths: dict[str, object] = {}
    for path in sorted(SCORED | UNSCORED):
        kind, schema = ("multipart/form-data", _FORM) if "/audio/" in path else ("application/json", _BODY)
        paths[path] = {"post": {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}, **answers}}
    id = {"name": "id", "in": "path", "required": True, "schema": _TEXT}
    paths["/v1/models"] = {"get": answers}
    paths["/v1/responses/{id}"] = {"get": {"parameters": [id], **answers}}
    paths["/v1/responses/{id}/cancel"] = {"post": {"parameters": [id], **answers}}
    return {"openapi": "3.1.0", "info": {"title": "clients", "version": "1"}, "paths": paths}


async def fuzz() -> int:
    """Run schemathesis on both sides. Returns the worst exit status."""
    port = consecutive_free_ports(5)
    gateway, replica, operators = (f"http://127.0.0.1:{port + number}" for number in range(3))
    simulated = ["-m", "gateway", "replica", "--port", str(port + 1), "--kv-port", str(port + 3)]
    with TemporaryDirectory() as folder:
        clients, settings = Path(folder) / "clients.json", Path(folder) / "gateway.yaml"
        clients.write_text(json.dumps(clients_schema()))
        given = {
            "listen": {"host": "127.0.0.1", "port": port, "admin_port": port + 2}, "replicas": [{"url": replica}],
            "page": {"policy_switch": True}, "traffic_log": {"path": str(Path(folder) / "traffic.jsonl")},
            "limits": {"upload_held": 64},
        }  # fmt: skip
        settings.write_text(yaml.safe_dump(given))
        async with (
            python([*simulated, "--time-scale", "0.01"], [replica + "/health"]),
            python(["-m", "gateway", "serve", "--config", str(settings)], [gateway + "/readyz", operators + "/readyz"]),
        ):
            sides = ((operators + "/openapi.json", operators), (str(clients), gateway))
            return max([await _run(schema, url) for schema, url in sides])


async def _run(schema: str, url: str) -> int:
    command = [
        "run", schema, "--url", url, "--checks", "not_a_server_error", "--max-examples", str(EXAMPLES),
        "--phases", "examples,coverage,fuzzing", "--seed", "1", "--suppress-health-check", "all",
    ]  # fmt: skip
    child = await asyncio.create_subprocess_exec(str(Path(sys.executable).with_name("schemathesis")), *command)
    return await child.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(fuzz()))
