"""`kvgate check --kubernetes`: what in the engines' pods keeps them from sharing what they store."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import httpx
import msgspec

from gateway.config import Config
from gateway.config.l2 import SharedModel
from gateway.fleet.discovery.kube_api import Collection, KubeApi, KubeError, trust
from gateway.fleet.discovery.kube_objects import Meta
from gateway.fleet.discovery.kubernetes import namespaces_of

REMOTE_URL = "LMCACHE_REMOTE_URL"
OPERATORS_SCHEME = "sagemaker-hyperpod://"
"""what HyperPod's operator puts there, each time that it reconciles"""
SEEDED_HASHES = (None, "builtin", "xxhash", "xxhash_cbor")
"""LMCache's hash functions that differ between processes without PYTHONHASHSEED; None: its default"""


class _Struct(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Variable(_Struct, frozen=True):
    """One entry of a container's environment; later ones of a name win."""

    name: str
    value: str | None = None


class Mount(_Struct, frozen=True):
    """Where a volume is in a container."""

    mount_path: str


class Container(_Struct, frozen=True):
    """What is read of it."""

    name: str
    env: list[Variable] | None = None
    volume_mounts: list[Mount] | None = None


class PodSpec(_Struct, frozen=True):
    """What is read of it."""

    containers: list[Container] = []


class EnginePod(_Struct, frozen=True):
    """A pod with what was asked of its containers."""

    metadata: Meta
    spec: PodSpec = PodSpec()


class PodFinding(NamedTuple):
    """What costs hits in silence."""

    pod: str
    fault: str


async def check_pods(config: Config) -> list[PodFinding]:
    """Look at the pods of every Kubernetes source of the configuration."""
    found: list[PodFinding] = []
    for source in config.discovery.kubernetes:
        async with httpx.AsyncClient(verify=trust(source.ca_file)) as client:
            api = KubeApi(client, str(source.api).rstrip("/"), source.token_file, source.timeout)
            for namespace in namespaces_of(source):
                try:
                    items, _ = await api.list(Collection(f"/api/v1/namespaces/{namespace}/pods", source.pods))
                except KubeError as exc:
                    found.append(PodFinding(namespace, f"its pods can't be listed: {exc}"))
                    continue
                pods = [msgspec.json.decode(item, type=EnginePod) for item in items]
                expected = tuple(config.l2.models.values()) if config.l2 and config.l2.path else ()
                found += judge(pods, expected)
    return found


def judge(pods: Iterable[EnginePod], expected: Sequence[SharedModel] = ()) -> list[PodFinding]:
    """What is wrong with each pod that LMCache is in, and what differs between them.

    expected: how the gateway takes stored chunks to be named; with any, the engines have to write to a file system.
    """
    found: list[PodFinding] = []
    said: dict[str, dict[str, str]] = {}
    for pod in pods:
        for container in pod.spec.containers:
            variables = container.env or []
            if not any(variable.name.startswith("LMCACHE_") for variable in variables):
                continue
            name = f"{pod.metadata.name}/{container.name}"
            said[name] = {variable.name: variable.value or "" for variable in variables}
            found += [PodFinding(name, fault) for fault in _faults(container, said[name], expected)]
    for key in (REMOTE_URL, "PYTHONHASHSEED", "LMCACHE_CHUNK_SIZE", "LMCACHE_REMOTE_SERDE"):
        values = {settings.get(key, "unset") for settings in said.values()}
        if len(values) > 1:
            found.append(PodFinding("all", f"{key} differs between pods: {', '.join(sorted(values))}"))
    return found


def _faults(container: Container, said: Mapping[str, str], expected: Sequence[SharedModel]) -> Iterable[str]:
    variables = container.env or []
    for key, times in Counter(variable.name for variable in variables).items():
        if times > 1:
            yield f"{key} is there {times} times: the last one counts, {said[key]}"
    url = said.get(REMOTE_URL)
    if expected and url is not None and url.startswith(OPERATORS_SCHEME):
        yield f"{REMOTE_URL} is the operator's ({url}): a reconcile undid the patch"
    elif expected and url is None:
        yield f"{REMOTE_URL} is missing: nothing is stored that others could read"
    if url is not None and url.startswith("fs://"):
        path = "/" + url.removeprefix("fs://").partition("/")[2]
        mounts = [mount.mount_path.rstrip("/") for mount in container.volume_mounts or ()]
        if not any(path == mount or path.startswith(mount + "/") for mount in mounts):
            yield f"{REMOTE_URL} names {path}, where no volume is mounted"
        if said.get("LMCACHE_REMOTE_SERDE", "naive") != "naive":
            yield f"LMCACHE_REMOTE_SERDE is {said['LMCACHE_REMOTE_SERDE']}: with fs:// only naive works"
    hash_name = said.get("LMCACHE_PRE_CACHING_HASH_ALGORITHM")
    if "PYTHONHASHSEED" not in said and hash_name in SEEDED_HASHES:
        yield f"PYTHONHASHSEED is missing: with {hash_name or 'builtin'} each process names chunks in its own way"
    chunk = int(said.get("LMCACHE_CHUNK_SIZE") or 256)
    if expected and all(model.chunk != chunk for model in expected):
        yield f"LMCACHE_CHUNK_SIZE is {chunk}, the gateway expects {', '.join(str(model.chunk) for model in expected)}"
