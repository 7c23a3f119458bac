"""Pods behind a Service in an emulated cluster, told as Kubernetes tells of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kube_server import KubeServer

NAMESPACE = "ml"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
LABELS = {"kubernetes.io/service-name": "vllm", "app": "vllm"}


def pod_object(name: str, uid: str, *, marks: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    annotations = {f"kvgate.io/{key}": value for key, value in (marks or {}).items()}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "labels": {"app": "vllm"},
            "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": {"containers": [{"name": "vllm"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


def endpoint(
    address: str | None, name: str, uid: str, *, ready: bool | None = True, **conditions: bool | None
) -> dict[str, Any]:
    return {
        "addresses": [address] if address else [],
        "conditions": {"ready": ready, **conditions},
        "targetRef": {"kind": "Pod", "name": name, "namespace": NAMESPACE, "uid": uid},
        "nodeName": "node-1",
    }


def slice_object(
    endpoints: Sequence[Mapping[str, Any]],
    *,
    name: str = "vllm-1",
    port: int = 8000,
    family: str = "IPv4",
    labels: Mapping[str, str] = LABELS,
) -> dict[str, Any]:
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels)},
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }


@dataclass
class Cluster:
    """Keeps the API's objects in step with a set of pods, one slice for each port, as pods on one host differ by it."""

    api: KubeServer
    uids: dict[tuple[str, int], str] = field(default_factory=dict)
    """address and port -> the pod that is there"""
    started: int = 0

    @property
    def truth(self) -> set[tuple[str, str]]:
        """URL and uid of each pod that is there."""
        return {(f"http://{address}:{port}", uid) for (address, port), uid in self.uids.items()}

    def start(self, address: str, port: int, marks: Mapping[str, str] | None = None) -> str:
        """A pod is ready at this address. Returns its uid."""
        self.started += 1
        uid = f"uid-{self.started}"
        self.uids[address, port] = uid
        self.api.put(PODS, pod_object(_name(uid), uid, marks=marks))
        self._tell(port)
        return uid

    def stop(self, address: str, port: int) -> None:
        """Its pod is gone."""
        uid = self.uids.pop((address, port))
        self._tell(port)
        self.api.delete(PODS, _name(uid))

    def _tell(self, port: int) -> None:
        there = [(address, uid) for (address, at), uid in self.uids.items() if at == port]
        endpoints = [endpoint(address, _name(uid), uid) for address, uid in there]
        self.api.put(SLICES, slice_object(endpoints, name=f"vllm-{port}", port=port))


def _name(uid: str) -> str:
    return f"pod-{uid}"
