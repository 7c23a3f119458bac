"""Objects of operators against all that their CRDs say, by models that others made from the CRDs: `make crds`.

tests/deploy holds the same objects to the parts that are in use, in a hundredth of the time. For the inference
extension of the Gateway API no such models are to be had: InferencePool is held to those parts only.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_tools import helm
from pydantic import BaseModel

DEPLOY = Path(__file__).parents[2] / "deploy"
OPERATORS = {
    "ScaledObject": "cloudcoil.models.keda.v1alpha1",
    "ServiceMonitor": "cloudcoil.models.prometheus_operator.v1",
    "PodMonitor": "cloudcoil.models.prometheus_operator.v1",
    "PrometheusRule": "cloudcoil.models.prometheus_operator.v1",
    "ClusterPolicy": "cloudcoil.models.kyverno.v1",
}
ROUTES = "@kubernetes-models/gateway-api@2.0.0"
VALIDATE_ROUTES = """
import { readFileSync } from 'node:fs'
import { HTTPRoute } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1'
for (const body of JSON.parse(readFileSync(0, 'utf8'))) new HTTPRoute(body).validate()
"""
HYPERPOD = "sagemaker-hyperpod==3.12.0"
HYPERPOD_MODEL = "sagemaker/hyperpod/inference/config/hp_endpoint_config.py"


def left_out(given: Any, understood: Any, path: str = "") -> Iterator[str]:
    """Paths of what an object has and its model has not: the API server would drop it."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            if isinstance(understood, Mapping) and key in understood:
                yield from left_out(value, understood[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(given, list):
        for number, (one, other) in enumerate(zip(given, understood, strict=True)):
            yield from left_out(one, other, f"{path}[{number}]")


def understood(model: type[BaseModel], body: Any) -> Any:
    return model.model_validate(body).model_dump(mode="json", by_alias=True, exclude_unset=True)


def objects() -> list[Mapping[str, Any]]:
    chart = [str(helm()), "template", "kvgate", str(DEPLOY / "helm" / "kvgate")]
    full = subprocess.run(
        [*chart, "--values", str(DEPLOY / "helm" / "full-values.yaml")], capture_output=True, text=True, check=True
    ).stdout
    files = [file for folder in ("hyperpod", "gateway-api") for file in sorted((DEPLOY / folder).glob("*.yaml"))]
    texts = [full, *(file.read_text() for file in files)]
    return [body for text in texts for body in yaml.safe_load_all(text) if body and "kind" in body]


def test_objects_of_operators_have_all_and_only_what_their_crds_have() -> None:
    pytest.importorskip("cloudcoil", reason="make crds")
    seen = set()
    for body in objects():
        if body["kind"] in OPERATORS:
            model = getattr(importlib.import_module(OPERATORS[body["kind"]]), body["kind"])
            assert list(left_out(body, understood(model, body))) == [], body["kind"]
            seen.add(body["kind"])
    assert seen == set(OPERATORS)


def test_the_endpoint_has_all_and_only_what_hyperpods_own_client_knows(tmp_path: Path) -> None:
    """Its module stands by itself, so that its package's many dependencies are not needed."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if subprocess.run([*pip, "--dest", str(tmp_path), HYPERPOD], capture_output=True, check=False).returncode:
        pytest.skip("HyperPod's client can't be had")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extract(HYPERPOD_MODEL, tmp_path)
    spec = importlib.util.spec_from_file_location("hp_endpoint_config", tmp_path / HYPERPOD_MODEL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (endpoint,) = (body for body in objects() if body["kind"] == "InferenceEndpointConfig")
    known = module._HPEndpoint.model_validate(endpoint["spec"]).model_dump(mode="json", exclude_unset=True)
    assert list(left_out(endpoint["spec"], known)) == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js and npm are not installed")
def test_routes_are_what_the_crd_of_the_gateway_api_asks_for(tmp_path: Path) -> None:
    """The CRD's own validation, which drops what it does not know; tests/deploy finds that."""
    routes = [body for body in objects() if body["kind"] == "HTTPRoute"]
    assert len(routes) == 3
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", ROUTES]
    subprocess.run(npm, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "validate.mjs").write_text(VALIDATE_ROUTES)

    def validate(bodies: Any) -> subprocess.CompletedProcess[str]:
        text = json.dumps(bodies)
        return subprocess.run(
            ["node", "validate.mjs"], cwd=tmp_path, input=text, capture_output=True, text=True, check=False
        )

    assert validate(routes).stderr == ""
    wrong = json.loads(json.dumps(routes[0]))
    wrong["spec"]["rules"][0]["backendRefs"][0]["port"] = 65_536
    assert "/spec/rules/0/backendRefs/0/port must be <= 65535" in validate([wrong]).stderr
