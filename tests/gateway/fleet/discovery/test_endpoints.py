from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from cluster import endpoint, pod_object, slice_object

from gateway.config import ReplicaConfig
from gateway.fleet.discovery.endpoints import Observed, Terms, observe
from gateway.fleet.discovery.kube_objects import EndpointSlice, Pod


def observed(
    slices: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]], terms: Terms | None = None
) -> Observed:
    return observe(
        [msgspec.json.decode(msgspec.json.encode(part), type=EndpointSlice) for part in slices],
        [msgspec.json.decode(msgspec.json.encode(pod), type=Pod) for pod in pods],
        terms or Terms(),
    )


def only(found: Observed) -> ReplicaConfig:
    (replica,) = found.replicas
    return replica


def urls(found: Observed) -> list[str]:
    return [str(replica.url).rstrip("/") for replica in found.replicas]


@pytest.mark.parametrize(
    ("conditions", "pod", "expected"),
    [
        ({"ready": True, "serving": True, "terminating": False}, {}, "serving"),
        ({"ready": None}, {}, "serving"),
        ({"ready": False, "serving": False, "terminating": False}, {}, None),
        ({"ready": False, "serving": True, "terminating": True}, {}, "draining"),
        ({"ready": False, "serving": False, "terminating": True}, {}, None),
        ({"ready": True}, {"deletionTimestamp": "2026-01-01T01:00:00Z"}, "draining"),
        ({"ready": True}, {"annotations": {"kvgate.io/draining": "true"}}, "draining"),
    ],
)
def test_conditions_say_who_may_be_sent_to(
    conditions: Mapping[str, Any], pod: Mapping[str, Any], expected: str | None
) -> None:
    found = observed([slice_object([endpoint("10.0.0.1", "p", "u", **conditions)])], [pod_object("p", "u", **pod)])
    states = ["draining" if replica.draining else "serving" for replica in found.replicas]
    assert states == ([expected] if expected else [])


def test_a_pod_says_what_is_particular_to_it_and_annotations_count_more_than_labels() -> None:
    pod = pod_object(
        "p", "u",
        labels={"kvgate.io/pool": "a100", "kvgate.io/weight": "3"},
        annotations={
            "kvgate.io/model": "qwen3", "kvgate.io/weight": "2.5", "kvgate.io/port": "9000",
            "kvgate.io/kv-events-port": "5557", "kvgate.io/kv-replay-port": "5667",
            "kvgate.io/lmcache-host-tokens": "4096", "kvgate.io/recomputed-blocks": "1",
        },
    )  # fmt: skip
    replica = only(observed([slice_object([endpoint("10.0.0.1", "p", "u")])], [pod]))
    assert replica == ReplicaConfig.model_validate(
        {
            "url": "http://10.0.0.1:9000", "uid": "u", "model": "qwen3", "pool": "a100", "weight": 2.5,
            "kv_events": "tcp://10.0.0.1:5557", "kv_replay": "tcp://10.0.0.1:5667",
            "lmcache_host_tokens": 4096, "recomputed_blocks": 1,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mark", "value"),
    [("weight", "much"), ("weight", "0"), ("weight", "nan"), ("kv-events-port", "70000"), ("port", "http"),
     ("recomputed-blocks", "3"), ("draining", "perhaps")],
)  # fmt: skip
def test_a_mark_that_makes_no_sense_is_told_and_left_out(mark: str, value: str) -> None:
    found = observed([slice_object([endpoint("10.0.0.1", "p", "u")])], [pod_object("p", "u", marks={mark: value})])
    assert found.unreadable == (f"kvgate.io/{mark}={value}",)
    assert only(found) == ReplicaConfig.model_validate({"url": "http://10.0.0.1:8000", "uid": "u"})


def test_an_address_of_version_6_gets_its_brackets() -> None:
    pod = pod_object("p", "u", marks={"kv-events-port": "5557"})
    replica = only(observed([slice_object([endpoint("fd00::7", "p", "u")], family="IPv6")], [pod]))
    assert (str(replica.url), replica.kv_events) == ("http://[fd00::7]:8000/", "tcp://[fd00::7]:5557")


@pytest.mark.parametrize(("family", "url"), [("IPv4", "http://10.0.0.1:8000"), ("IPv6", "http://[fd00::1]:8000")])
def test_a_pod_with_addresses_of_both_families_is_one_replica(family: str, url: str) -> None:
    slices = [
        slice_object([endpoint("10.0.0.1", "p", "u")]),
        slice_object([endpoint("fd00::1", "p", "u")], name="vllm-6", family="IPv6"),
    ]
    assert urls(observed(slices, [pod_object("p", "u")], Terms(family=family))) == [url]


def test_an_endpoint_in_two_slices_at_once_is_one_replica() -> None:
    # Kubernetes may show an endpoint in two slices while it moves it.
    slices = [slice_object([endpoint("10.0.0.1", "p", "u")], name=name) for name in ("vllm-1", "vllm-2")]
    assert urls(observed(slices, [pod_object("p", "u")])) == ["http://10.0.0.1:8000"]


def test_a_pod_that_is_gone_is_no_replica_though_a_slice_still_has_it() -> None:
    assert urls(observed([slice_object([endpoint("10.0.0.1", "p", "u")])], [])) == []


def test_a_pod_that_was_replaced_under_its_name_is_not_the_one_that_the_slice_has() -> None:
    assert urls(observed([slice_object([endpoint("10.0.0.1", "p", "old")])], [pod_object("p", "new")])) == []


def test_of_two_pods_that_claim_an_address_the_youngest_comes_last() -> None:
    slices = [slice_object([endpoint("10.0.0.1", "new", "n"), endpoint("10.0.0.1", "old", "o")])]
    pods = [pod_object("old", "o"), pod_object("new", "n", creationTimestamp="2026-01-02T00:00:00Z")]
    assert [replica.uid for replica in observed(slices, pods).replicas] == ["o", "n"]


def test_an_endpoint_without_an_address_is_left_out() -> None:
    assert urls(observed([slice_object([endpoint(None, "p", "u")])], [pod_object("p", "u")])) == []


def test_an_endpoint_that_is_no_pod_needs_none() -> None:
    outside = {"addresses": ["192.0.2.1"]}
    assert urls(observed([slice_object([outside])], [])) == ["http://192.0.2.1:8000"]


@pytest.mark.parametrize(("port", "expected"), [(None, 8000), ("metrics", 9090), (7000, 7000), ("unknown", None)])
def test_the_port_is_the_slices_by_name_or_one_that_is_set(port: int | str | None, expected: int | None) -> None:
    ports = [{"name": "metrics", "port": 9090}, {"name": "http", "port": 8000}]
    part = {**slice_object([endpoint("10.0.0.1", "p", "u")]), "ports": ports}
    found = urls(observed([part], [pod_object("p", "u")], Terms(port=port)))
    assert found == ([f"http://10.0.0.1:{expected}"] if expected else [])


def test_slices_with_null_everywhere_have_no_replicas() -> None:
    part = {"metadata": {"name": "s", "labels": None}, "addressType": "IPv4", "endpoints": None, "ports": None}
    assert urls(observed([part], [])) == []
