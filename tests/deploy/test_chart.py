"""The chart: what it renders is valid, safe, and what `kvgate serve` starts with."""

import json
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import kubernetes_validate
import pytest
import values_schema
import yaml
from fake_replica import fake_replica
from kube_tools import helm, kubectl
from processes import free_port, process

from gateway.config import Config, parse
from gateway.workers import of_worker

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "kvgate"
FULL = DEPLOY / "helm" / "full-values.yaml"
CRDS = Path(__file__).parent / "crds"
VERSIONS = ("1.32", "1.33", "1.34", "1.35", "1.36")
Object = Mapping[str, Any]

needs_helm = pytest.mark.skipif(helm() is None, reason="helm is not installed and its wheel can't be had")
needs_kubectl = pytest.mark.skipif(kubectl() is None, reason="kubectl is not installed")


@cache
def run(*arguments: str) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*options: str) -> list[Object]:
    text = run(str(helm()), "template", "kvgate", str(CHART), "--namespace", "ml", *options)
    return [body for body in yaml.safe_load_all(text) if body]


def kustomized(name: str) -> list[Object]:
    return [body for body in yaml.safe_load_all(run(str(kubectl()), "kustomize", str(DEPLOY / name))) if body]


def the(kind: str, objects: Sequence[Object]) -> Object:
    (body,) = (body for body in objects if body["kind"] == kind)
    return body


def configuration(objects: Sequence[Object]) -> str:
    bodies = (body.get("data") or body.get("stringData") or {} for body in objects)
    (text,) = (body["config.yaml"] for body in bodies if "config.yaml" in body)
    return str(text)


def validate(body: Object) -> None:
    """Against Kubernetes' own schemas where it is of Kubernetes, else against the part of its CRD that is in use."""
    schema = CRDS / f"{body['kind']}.json"
    if schema.exists():
        jsonschema.validate(body, json.loads(schema.read_text()))
        return
    for version in VERSIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own, about itself
            kubernetes_validate.validate(body, version, strict=True)


@needs_helm
@pytest.mark.parametrize("values", [(), ("--values", str(FULL))])
def test_it_is_well_formed_and_every_object_of_it_is_valid(values: tuple[str, ...]) -> None:
    assert "0 chart(s) failed" in run(str(helm()), "lint", "--strict", str(CHART), *values)
    for body in rendered(*values):
        validate(body)


@needs_helm
def test_with_all_values_it_has_all_objects() -> None:
    kinds = {body["kind"] for body in rendered("--values", str(FULL))}
    assert kinds == {
        "ConfigMap", "Deployment", "HTTPRoute", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget",
        "PodMonitor", "PrometheusRule", "Role", "RoleBinding", "ScaledObject", "Secret", "Service", "ServiceAccount",
        "ServiceMonitor", "StatefulSet",
    }  # fmt: skip


@needs_helm
@pytest.mark.parametrize("values", [(), ("--values", str(FULL))])
def test_no_container_is_root_writes_its_image_or_has_a_capability(values: tuple[str, ...]) -> None:
    pods = [body["spec"]["template"]["spec"] for body in rendered(*values) if "template" in body.get("spec", {})]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


@needs_helm
def test_a_pod_has_time_to_end_its_answers() -> None:
    objects = rendered("--set", "drainSeconds=90,preStopSeconds=7")
    pod = the("Deployment", objects)["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 90 + 7
    assert pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == 7
    assert parse(configuration(objects)).limits.drain == 90


@needs_helm
def test_the_role_allows_what_discovery_needs_and_nothing_else() -> None:
    roles = [body for body in rendered("--values", str(FULL)) if body["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["ml", "ml-batch"]
    for role in roles:
        assert {(*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {
            ("discovery.k8s.io", "endpointslices", "get", "list", "watch"),
            ("", "pods", "get", "list", "watch"),
        }


@needs_helm
@pytest.mark.parametrize("values", [(), ("--values", str(FULL))])
def test_what_operators_call_has_a_port_and_a_service_of_its_own(values: tuple[str, ...]) -> None:
    objects = rendered(*values)
    (container,) = the("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "admin"
    services = [body for body in objects if body["kind"] == "Service" and not body["metadata"]["name"].endswith("key")]
    for service in services:
        admin = [port for port in service["spec"]["ports"] if port["targetPort"] == "admin"]
        assert bool(admin) == service["metadata"]["name"].endswith("-admin")
        assert not admin or service["spec"].get("type", "ClusterIP") == "ClusterIP"


@needs_helm
def test_curvine_is_mounted_read_only() -> None:
    pod = the("Deployment", rendered("--values", str(FULL)))["spec"]["template"]["spec"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "curvine")
    (mount,) = (mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "curvine")
    assert volume["persistentVolumeClaim"] == {"claimName": "curvine-l2", "readOnly": True}
    assert mount["readOnly"] is True


@needs_helm
def test_workers_share_an_index_and_have_admin_ports_of_their_own() -> None:
    objects = rendered("--set", "workers=3,redis.bundled=true,monitoring.serviceMonitor=true")
    (container,) = the("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--workers", "3"]
    ports = {"admin": 8081, "admin-1": 8082, "admin-2": 8083}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": 8080, **ports}
    assert [one["port"] for one in the("ServiceMonitor", objects)["spec"]["endpoints"]] == list(ports)
    (service,) = (body for body in objects if body["metadata"]["name"] == "kvgate-admin")
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == ports
    config = parse(configuration(objects))
    assert config.index.redis_url == "redis://kvgate-valkey:6379/0"
    assert of_worker(config, 2).listen.admin_port == ports["admin-2"]


@needs_helm
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("workers=2", "set redis.url or redis.bundled"),
        ("workers=2,redis.bundled=true,containerPort=8082", "one of the workers' admin ports"),
        ("config.polcy=kv-aware", "'polcy' not allowed"),
        ("config.probing.interval=often", "/config/probing/interval"),
    ],
)
def test_it_says_why_it_does_not_render(values: str, reason: str) -> None:
    command = [str(helm()), "template", "kvgate", str(CHART), "--set", values]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert reason in done.stderr


def test_its_schema_has_the_settings_as_they_are() -> None:
    assert values_schema.FILE.read_text() == values_schema.text(), "make manifests"


NONSENSE: Sequence[Mapping[str, Any]] = [
    {"replicaCount": 0},
    {"replicas": 2},
    {"workers": 0},
    {"config": {"policy": 1}},
    {"config": {"l2": {"models": {"m": {"chunk": 0}}}}},
    {"engines": {"service": "", "selector": ""}},
    {"engines": {"port": 70000}},
    {"engines": {"servce": "vllm"}},
    {"containerPort": 80},
    {"drainSeconds": -1},
    {"redis": {"url": "localhost:6379"}},
    {"curvine": {"enabled": True, "existingClaim": ""}},
    {"keda": {"saturatedShare": 1.5}},
    {"httpRoute": {"enabled": True, "parentRefs": []}},
    {"monitoring": {"interval": "often"}},
    {"podDisruptionBudget": {"maxUnavailable": 0}},
    {"image": {"pullPolicy": "Sometimes"}},
]


@pytest.mark.parametrize("values", NONSENSE)
def test_values_that_make_no_sense_are_refused(values: Mapping[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(defaults, schema)
    jsonschema.validate(yaml.safe_load(FULL.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {**defaults, **{key: {**defaults.get(key, {}), **value} if isinstance(value, dict) else value
                            for key, value in values.items()}},
            schema,
        )  # fmt: skip


@needs_helm
async def test_what_it_configures_starts_kvgate(tmp_path: Path) -> None:
    port = free_port()
    async with fake_replica() as fake:
        # Where there is no API to ask, the replica is named; the rest is as the chart has it.
        options = (
            "--set",
            f"containerPort={port},adminPort={free_port()}",
            "--set-json",
            f'config={{"replicas": [{{"url": "{fake.url}"}}]}}',
        )
        file = tmp_path / "config.yaml"
        file.write_text(configuration(rendered(*options)))
        arguments = ["serve", "--config", str(file)]
        async with process(arguments, f"http://127.0.0.1:{port}", "/readyz", tmp_path / "log") as gateway:
            async with httpx.AsyncClient() as client:
                answer = await client.post(gateway.url + "/v1/chat/completions", json={"model": "fake", "messages": []})
            assert answer.status_code == 200


@needs_helm
def test_what_it_configures_with_all_values_is_understood(tmp_path: Path) -> None:
    """Every section of the settings is among them."""
    (tmp_path / "keys.yaml").write_text("[]")
    text = configuration(rendered("--values", str(FULL)))
    assert set(yaml.safe_load(text)) == set(Config.model_fields)
    config = parse(text.replace("/etc/kvgate-keys", str(tmp_path)))
    (source,) = config.discovery.kubernetes
    assert (source.namespaces, source.pods, source.port) == (("ml", "ml-batch"), "app=vllm", "http")
    assert config.l2 is not None
    assert config.l2.path == Path("/mnt/curvine/l2cache")


@needs_helm
def test_the_plain_manifests_are_what_the_chart_renders() -> None:
    text = run(str(helm()), "template", "kvgate", str(CHART), "--namespace", "kvgate")
    assert text == (DEPLOY / "kubernetes" / "base" / "kvgate.yaml").read_text(), "make manifests"


@needs_kubectl
@pytest.mark.parametrize("name", ["kubernetes/base", "kubernetes/curvine"])
def test_the_plain_manifests_are_valid_and_configure_what_is_understood(name: str) -> None:
    objects = kustomized(name)
    for body in objects:
        validate(body)
    assert parse(configuration(objects)).discovery


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_the_compose_files_drop_all_rights_and_configure_what_is_understood(name: str) -> None:
    services = yaml.safe_load((DEPLOY / "compose" / f"{name}.yaml").read_text())["services"]
    gateway = services["kvgate"]
    assert (gateway["read_only"], gateway["cap_drop"]) == (True, ["ALL"])
    config = parse((DEPLOY / "compose" / f"{name}.config.yaml").read_text())
    assert config.replicas or config.discovery
    assert str(config.limits.drain) < gateway["stop_grace_period"]
