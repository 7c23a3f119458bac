"""Manifests of engines, HyperPod and the Gateway API: valid, and in step with what the gateway is told."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from hyperpod_patch import patch

DEPLOY = Path(__file__).parents[2] / "deploy"
CRDS = Path(__file__).parent / "crds"
FILES = (
    "vllm/vllm.yaml", "hyperpod/endpoint.yaml", "hyperpod/kyverno.yaml", "gateway-api/route.yaml",
    "gateway-api/inference-pool.yaml",
)  # fmt: skip


def objects(name: str) -> list[Mapping[str, Any]]:
    return [body for body in yaml.safe_load_all((DEPLOY / name).read_text()) if body]


@pytest.mark.parametrize("name", FILES)
def test_every_manifest_is_valid(name: str) -> None:
    for body in objects(name):
        schema = CRDS / f"{body['kind']}.json"
        if schema.exists():
            jsonschema.validate(body, json.loads(schema.read_text()))
        else:
            kubernetes_validate.validate(body, "1.36", strict=True)


@pytest.mark.parametrize("name", ["vllm/vllm.yaml", "hyperpod/endpoint.yaml"])
def test_every_setting_of_an_engine_has_a_reason_beside_it_and_events_a_replay(name: str) -> None:
    text = (DEPLOY / name).read_text()
    (line,) = (
        line for line in text.splitlines() if "--kv-events-config=" in line and not line.lstrip().startswith("#")
    )
    events = json.loads(line.partition("=")[2])
    assert events["enable_kv_cache_events"] is True
    assert events["replay_endpoint"]
    assert "--enable-prompt-tokens-details" in text
    assert "PYTHONHASHSEED" in text


def test_the_operator_accepts_no_backend_called_curvine() -> None:
    body = json.loads(json.dumps(objects("hyperpod/endpoint.yaml")[0]))
    body["spec"]["kvCacheSpec"]["l2CacheSpec"]["l2CacheBackend"] = "curvine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, json.loads((CRDS / "InferenceEndpointConfig.json").read_text()))


def deployment(*env: str, mounts: Sequence[Mapping[str, str]] = (), volumes: Sequence[Mapping[str, Any]] = ()) -> Any:
    engine = {"name": "vllm", "env": [{"name": name, "value": "x"} for name in env], "volumeMounts": list(mounts)}
    pod = {"containers": [{"name": "proxy"}, engine], "volumes": list(volumes)}
    return {"spec": {"template": {"spec": pod}}}


def applied(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """RFC 6902, as far as it is used."""
    document = json.loads(json.dumps(document))
    for operation in operations:
        *way, last = operation["path"].strip("/").split("/")
        target = document
        for step in way:
            target = target[int(step)] if isinstance(target, list) else target[step]
        if operation["op"] == "test":
            assert target[last] == operation["value"]
        elif last == "-":
            target.append(operation["value"])
        elif operation["op"] == "remove":
            del target[int(last)]
        else:
            target[int(last) if isinstance(target, list) else last] = operation["value"]
    return document


@pytest.mark.parametrize(
    "env",
    [
        ("A", "LMCACHE_REMOTE_URL", "B"),
        ("LMCACHE_REMOTE_URL", "A", "LMCACHE_REMOTE_URL"),
        ("A", "B", "LMCACHE_REMOTE_URL", "LMCACHE_REMOTE_URL", "LMCACHE_REMOTE_URL"),
    ],
)
def test_the_patch_leaves_the_variable_once_wherever_it_was_and_mounts_the_claim(env: Sequence[str]) -> None:
    before = deployment(*env)
    after = applied(before, patch(before, "fs://localhost:0/l2/", "claim", "/l2"))
    pod = after["spec"]["template"]["spec"]
    engine = pod["containers"][1]
    assert [entry["value"] for entry in engine["env"] if entry["name"] == "LMCACHE_REMOTE_URL"] == [
        "fs://localhost:0/l2/"
    ]
    assert [entry["name"] for entry in engine["env"] if entry["value"] == "x"] == [
        name for name in env if name != "LMCACHE_REMOTE_URL"
    ]
    assert engine["volumeMounts"] == [{"name": "curvine", "mountPath": "/l2"}]
    assert pod["volumes"] == [{"name": "curvine", "persistentVolumeClaim": {"claimName": "claim"}}]
    again = applied(after, patch(after, "fs://localhost:0/l2/", "claim", "/l2"))
    assert again == after


def test_a_deployment_without_the_variable_is_refused() -> None:
    with pytest.raises(ValueError, match="no container"):
        patch(deployment("A"), "fs://localhost:0/l2/", "claim", "/l2")
