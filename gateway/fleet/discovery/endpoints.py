"""EndpointSlices and pods -> replicas. Pure, so that every odd state of a cluster is a line in a test."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gateway.config import ReplicaConfig
from gateway.fleet.discovery.kube_objects import Conditions, Endpoint, EndpointSlice, Pod, Port
from gateway.fleet.discovery.marks import Marks, read_marks

_FAMILIES = {"IPv4": 0, "IPv6": 1, "FQDN": 2}
_EVERYBODY = Conditions()


class Terms(NamedTuple):
    """How endpoints become URLs."""

    scheme: str = "http"
    port: int | str | None = None
    """number or name of the HTTP port; the slice's `http` or first where absent"""
    family: str = "IPv4"
    """of a pod that has addresses of both families"""


class Observed(NamedTuple):
    """What the cluster says."""

    replicas: tuple[ReplicaConfig, ...]
    """sorted by address; of pods that claim one address, the youngest last"""
    unreadable: tuple[str, ...]
    """labels and annotations that make no sense"""


class _Place(NamedTuple):
    created: str
    family: int
    replica: ReplicaConfig


def observe(slices: Iterable[EndpointSlice], pods: Iterable[Pod], terms: Terms) -> Observed:
    """All replicas behind the slices.

    An endpoint that is neither ready nor about to end is left out; one that is about to end, or whose pod is, or is
    marked so, is draining. An endpoint of a pod that is not (any more) among `pods` is left out: slices follow pods
    with a delay, and a pod that was replaced under its name is another one.
    """
    known = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    places: dict[str, _Place] = {}
    unreadable: dict[str, None] = {}
    for part in slices:
        family = _FAMILIES.get(part.address_type, len(_FAMILIES))
        if part.address_type != terms.family:
            family += len(_FAMILIES)
        for endpoint in part.endpoints or ():
            pod, is_pod = _pod(endpoint, part.metadata.namespace, known)
            if (is_pod and pod is None) or not endpoint.addresses:
                continue
            marks = read_marks(pod.metadata) if pod else Marks()
            unreadable.update(dict.fromkeys(marks.unreadable))
            replica = _replica(endpoint, part.ports or (), pod, marks, terms)
            if replica is None:
                continue
            place = _Place(pod.metadata.creation_timestamp or "" if pod else "", family, replica)
            key = f"{replica.uid} {replica.url.port}" if pod else str(replica.url)
            if key not in places or place.family < places[key].family:
                places[key] = place
    ordered = sorted(places.values(), key=lambda place: (str(place.replica.url), place.created))
    return Observed(tuple(place.replica for place in ordered), tuple(unreadable))


def _pod(endpoint: Endpoint, namespace: str, known: Mapping[tuple[str, str], Pod]) -> tuple[Pod | None, bool]:
    """The pod behind an endpoint if it is there, and whether there should be one."""
    target = endpoint.target_ref
    if target is None or target.kind != "Pod" or target.name is None:
        return None, False
    pod = known.get((namespace, target.name))
    if pod is not None and target.uid and target.uid != pod.metadata.uid:
        pod = None
    return pod, True


def _replica(
    endpoint: Endpoint, ports: Iterable[Port], pod: Pod | None, marks: Marks, terms: Terms
) -> ReplicaConfig | None:
    conditions = endpoint.conditions or _EVERYBODY
    ready = conditions.ready is not False
    serving = ready if conditions.serving is None else conditions.serving
    ending = bool(conditions.terminating) or (pod is not None and pod.metadata.deletion_timestamp is not None)
    port = marks.port or _port(ports, terms.port)
    if port is None or not (ready or (ending and serving)):
        return None
    assert endpoint.addresses
    address = endpoint.addresses[0]
    host = f"[{address}]" if ":" in address else address
    return ReplicaConfig.model_validate(
        {
            "url": f"{terms.scheme}://{host}:{port}",
            "uid": pod.metadata.uid if pod else "",
            "kv_events": marks.kv_events_port and f"tcp://{host}:{marks.kv_events_port}",
            "kv_replay": marks.kv_replay_port and f"tcp://{host}:{marks.kv_replay_port}",
            "model": marks.model,
            "pool": marks.pool,
            "weight": marks.weight,
            "draining": marks.draining or ending,
            "lmcache_host_tokens": marks.lmcache_host_tokens,
            "recomputed_blocks": marks.recomputed_blocks,
        }
    )


def _port(ports: Iterable[Port], wanted: int | str | None) -> int | None:
    """The number of the HTTP port. A number that is wanted need not be among the slice's."""
    if isinstance(wanted, int):
        return wanted
    by_name = {port.name or "": port.port for port in ports if port.port}
    if wanted is not None:
        return by_name.get(wanted)
    return by_name.get("http") or next(iter(by_name.values()), None)
