"""What is read of Kubernetes' objects (core/v1 Pod, discovery.k8s.io/v1 EndpointSlice); everything else is left out.

Any field may be absent or null there.
"""

import msgspec


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Meta(_Object, frozen=True):
    """metav1.ObjectMeta"""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    """RFC 3339 in UTC, to the second: sorts as text"""
    deletion_timestamp: str | None = None
    """set from the moment that somebody asked for its deletion"""


class Pod(_Object, frozen=True):
    """What its owner says of a replica."""

    metadata: Meta


class TargetRef(_Object, frozen=True):
    """corev1.ObjectReference"""

    kind: str | None = None
    name: str | None = None
    uid: str | None = None


class Conditions(_Object, frozen=True):
    """An absent `ready` means yes; an absent `terminating` means no (discovery/v1, EndpointConditions)."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(_Object, frozen=True):
    """One address behind a Service. All its addresses are of the same server, so the first stands for all."""

    addresses: list[str] | None = None
    conditions: Conditions | None = None
    target_ref: TargetRef | None = None


class Port(_Object, frozen=True):
    """A port of all endpoints of a slice."""

    name: str | None = None
    port: int | None = None


class EndpointSlice(_Object, frozen=True):
    """A part of a Service's endpoints. A dual-stack Service has slices of each family, with the same pods in them."""

    metadata: Meta
    address_type: str = "IPv4"
    """IPv4, IPv6 or FQDN"""
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


class ListMeta(_Object, frozen=True):
    """metav1.ListMeta"""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    """where the next page begins; empty on the last"""


class Page(_Object, frozen=True):
    """A list, or a part of one."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(_Object, frozen=True):
    """One line of a watch."""

    type: str
    """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR"""
    object: msgspec.Raw


class Status(_Object, frozen=True):
    """metav1.Status: the object of an ERROR, and the body of an answer that is none."""

    code: int = 0
    message: str = ""
    reason: str = ""
