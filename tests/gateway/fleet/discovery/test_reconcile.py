from typing import Any

from gateway.config import ReplicaConfig
from gateway.fleet.discovery.reconcile import Changes, Identity, identity, reconcile


def replica(host: str = "10.0.0.1", uid: str = "a", **fields: Any) -> ReplicaConfig:
    return ReplicaConfig.model_validate({"url": f"http://{host}:8000", "uid": uid, **fields})


def watched(*replicas: ReplicaConfig) -> dict[Identity, ReplicaConfig]:
    return {identity(one): one for one in replicas}


def test_who_is_new_joins_and_who_is_missing_leaves() -> None:
    old, kept, new = replica("10.0.0.1", "a"), replica("10.0.0.2", "b"), replica("10.0.0.3", "c")
    changes = reconcile(watched(old, kept), [kept, new])
    assert changes == Changes(leave=(identity(old),), change=(), join=(new,))


def test_nothing_follows_from_the_same_again() -> None:
    assert reconcile(watched(replica()), [replica()]) == Changes((), (), ())


def test_another_pod_under_the_same_address_is_another_replica() -> None:
    changes = reconcile(watched(replica(uid="a")), [replica(uid="b")])
    assert (changes.leave, changes.join) == ((identity(replica(uid="a")),), (replica(uid="b"),))


def test_a_changed_description_is_no_reason_to_leave() -> None:
    for changed in (replica(weight=2.0), replica(draining=True)):
        assert reconcile(watched(replica()), [changed]) == Changes((), (changed,), ())


def test_of_two_that_claim_an_address_the_last_counts() -> None:
    assert reconcile({}, [replica(uid="old"), replica(uid="new")]).join == (replica(uid="new"),)


def test_a_draining_pod_does_not_stand_in_the_way_of_the_one_that_has_its_address_now() -> None:
    new, old = replica(uid="new"), replica(uid="old", draining=True)
    assert reconcile({}, [new, old]).join == reconcile({}, [old, new]).join == (new,)
