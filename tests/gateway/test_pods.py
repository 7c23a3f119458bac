"""What in engines' pods keeps them from sharing what they store."""

from collections.abc import Mapping, Sequence

import pytest
from cluster import NAMESPACE, PODS, pod_object
from kube_server import kube_server

from gateway.config import parse
from gateway.config.l2 import SharedModel
from gateway.fleet.discovery.kube_objects import Meta
from gateway.pods import Container, EnginePod, Mount, PodSpec, Variable, check_pods, judge

GOOD = {
    "LMCACHE_REMOTE_URL": "fs://localhost:0/mnt/curvine/l2cache/",
    "LMCACHE_REMOTE_SERDE": "naive",
    "LMCACHE_CHUNK_SIZE": "256",
    "PYTHONHASHSEED": "0",
}
SHARED = (SharedModel(hash="sha256_cbor"),)


def pod(env: Mapping[str, str], *more: tuple[str, str], name: str = "vllm-0", mount: str = "/mnt/curvine") -> EnginePod:
    variables = [Variable(key, value) for key, value in (*env.items(), *more)]
    container = Container("vllm", variables, [Mount(mount)])
    return EnginePod(Meta(name=name), PodSpec([Container("proxy"), container]))


def faults(*pods: EnginePod, expected: Sequence[SharedModel] = SHARED) -> list[str]:
    return [fault for _, fault in judge(pods, expected)]


def without(*keys: str) -> Mapping[str, str]:
    return {key: value for key, value in GOOD.items() if key not in keys}


def test_nothing_is_found_at_pods_that_share() -> None:
    assert faults(pod(GOOD), pod(GOOD, name="vllm-1")) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (pod(GOOD, ("LMCACHE_REMOTE_URL", "fs://x:0/mnt/curvine")), "LMCACHE_REMOTE_URL is there 2 times: the last"),
        (pod({**GOOD, "LMCACHE_REMOTE_URL": "sagemaker-hyperpod://10.0.0.1:9200"}), "a reconcile undid the patch"),
        (pod(without("LMCACHE_REMOTE_URL")), "LMCACHE_REMOTE_URL is missing"),
        (pod(without("PYTHONHASHSEED")), "PYTHONHASHSEED is missing: with builtin"),
        (pod({**GOOD, "LMCACHE_REMOTE_SERDE": "cachegen"}), "LMCACHE_REMOTE_SERDE is cachegen"),
        (pod({**GOOD, "LMCACHE_CHUNK_SIZE": "128"}), "LMCACHE_CHUNK_SIZE is 128, the gateway expects 256"),
        (pod(GOOD, mount="/mnt/other"), "where no volume is mounted"),
    ],
)
def test_what_is_wrong_with_a_pod_is_found(changed: EnginePod, fault: str) -> None:
    (found,) = faults(changed)
    assert fault in found


def test_a_hash_that_needs_no_seed_may_have_none() -> None:
    settings = {**without("PYTHONHASHSEED"), "LMCACHE_PRE_CACHING_HASH_ALGORITHM": "sha256_cbor"}
    assert faults(pod(settings)) == []


def test_the_operators_storage_is_no_fault_where_no_other_is_wanted() -> None:
    assert faults(pod({**GOOD, "LMCACHE_REMOTE_URL": "sagemaker-hyperpod://10.0.0.1:9200"}), expected=()) == []


def test_what_differs_between_pods_is_found() -> None:
    found = faults(pod(GOOD), pod({**GOOD, "PYTHONHASHSEED": "1"}, name="vllm-1"))
    assert found == ["PYTHONHASHSEED differs between pods: 0, 1"]


def test_pods_without_lmcache_are_none_of_it() -> None:
    assert faults(pod({"PATH": "/bin"})) == []


async def test_the_pods_are_those_that_the_api_lists_for_the_configured_sources() -> None:
    async with kube_server() as api:
        body = pod_object("vllm-0", "u")
        env: list[dict[str, object]] = [
            {"name": key, "value": value} for key, value in without("PYTHONHASHSEED").items()
        ]
        env.append({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
        mounts = [{"name": "curvine", "mountPath": "/mnt/curvine"}]
        spec = {"containers": [{"name": "vllm", "env": env, "volumeMounts": mounts}]}
        api.put(PODS, {**body, "spec": spec})
        source = f"{{service: vllm, namespaces: [{NAMESPACE}], api: '{api.url}', token_file: null}}"
        config = parse(f"discovery: {{kubernetes: [{source}]}}")
        (found,) = await check_pods(config)
        assert found.pod == "vllm-0/vllm"
        assert "PYTHONHASHSEED is missing" in found.fault
        api.refusal = (403, "forbidden")
        (refused,) = await check_pods(config)
        assert "403 forbidden" in refused.fault
