"""Where replicas are looked for besides the list in the configuration."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, HttpUrl, model_validator

from gateway.config.section import Seconds, Section

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PortNumber = Annotated[int, Field(gt=0, lt=65536)]


class KubernetesDiscovery(Section):
    """EndpointSlices of one Service, or all that carry some labels, and the pods behind them.

    The service account may get, list and watch `endpointslices` (discovery.k8s.io) and `pods` in each namespace.
    """

    service: str | None = None
    """the Service's name"""
    selector: str | None = None
    """a label selector for EndpointSlices, which carry their Service's labels, in place of a name"""
    namespaces: tuple[str, ...] = ()
    """the gateway's own where none is named"""
    pods: str = ""
    """a label selector for pods: spares reading all pods of a big namespace; a pod without the labels is left out"""
    port: _PortNumber | str | None = None
    """number, or name in the Service, of the engines' HTTP port; the one named `http` or the first where absent"""
    scheme: Literal["http", "https"] = "http"
    family: Literal["IPv4", "IPv6"] = "IPv4"
    """of pods that have addresses of both"""
    relist: Seconds = 60.0
    """seconds between two full lists; whatever a watch missed is put right by then"""
    retry: Seconds = 0.5
    """seconds before the first new attempt; doubled with each that fails"""
    retry_most: Seconds = 30.0
    timeout: Seconds = 10.0
    """seconds for a list"""
    api: HttpUrl = HttpUrl("https://kubernetes.default.svc")
    token_file: Path | None = _SERVICE_ACCOUNT / "token"
    ca_file: Path | None = _SERVICE_ACCOUNT / "ca.crt"
    namespace_file: Path = _SERVICE_ACCOUNT / "namespace"

    @model_validator(mode="after")
    def _one_of_both(self) -> "KubernetesDiscovery":
        if (self.service is None) == (self.selector is None):
            raise ValueError("either service or selector has to be set")
        return self

    @property
    def labels(self) -> str:
        """The selector for EndpointSlices."""
        return self.selector or f"kubernetes.io/service-name={self.service}"


class DnsDiscovery(Section):
    """A name with SRV records, or with addresses and a port that is set here: a headless Service has both."""

    name: str
    """such as `_http._tcp.vllm.ml.svc.cluster.local`, or `vllm.ml.svc` with a port"""
    port: _PortNumber | None = None
    """with one, the name's addresses are asked for; without one, its SRV records"""
    scheme: Literal["http", "https"] = "http"
    family: Literal["IPv4", "IPv6"] = "IPv4"
    """asked for first"""
    kv_events_port: _PortNumber | None = None
    """of all replicas, for engines without `/kv_event_sources`"""
    kv_replay_port: _PortNumber | None = None
    servers: tuple[Annotated[str, Field(pattern=r"^.+:\d+$")], ...] = ()
    """`address:port` of resolvers; the system's where none is named"""
    shortest: Seconds = 1.0
    """seconds between two questions, whatever the TTL says"""
    longest: Seconds = 30.0
    timeout: Seconds = 5.0
    """seconds for an answer"""


class FileDiscovery(Section):
    """A YAML or JSON list of replicas, in the words of `replicas`, that somebody else writes."""

    path: Path
    reread: Annotated[float, Field(ge=0.1)] = 30.0
    """seconds between two looks on a volume that does not tell of changes"""


class Discovery(Section):
    """All sources count together; what the configuration lists itself counts more than any."""

    kubernetes: tuple[KubernetesDiscovery, ...] = ()
    dns: tuple[DnsDiscovery, ...] = ()
    file: tuple[FileDiscovery, ...] = ()
    forget: Seconds = 300.0
    """seconds after a replica was last there that its metrics end; long enough for the last scrape"""

    def __bool__(self) -> bool:
        return bool(self.kubernetes or self.dns or self.file)
