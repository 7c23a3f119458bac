"""What requests carry to prove to a replica who sends them."""

from collections.abc import Generator

import httpx

from gateway.config import AdmissionConfig, Config, ReplicaConfig
from gateway.fleet.probe import replica_id
from gateway.relay.transport import PoolTransport, untied
from gateway.relay.upstream import RawHeaders
from routing.types import ReplicaId

_CLIENTS_KEY = (b"authorization", b"x-api-key")


class Credentials:
    """withheld: headers of clients that no replica gets to see, in lower case."""

    def __init__(self, config: Config) -> None:
        common = config.upstream_api_key
        self._common = common.get_secret_value() if common is not None else None
        self._keys: dict[ReplicaId, str] = {}
        for replica in config.replicas:
            self.introduce(replica)
        self.reload(config.admission)

    def introduce(self, replica: ReplicaConfig) -> None:
        """Take in the key of a replica that is new, or of which something else is said now."""
        id = replica_id(replica.origin)
        if replica.api_key is not None:
            self._keys[id] = replica.api_key.get_secret_value()
        else:
            self._keys.pop(id, None)

    def reload(self, admission: AdmissionConfig | None) -> None:
        """Take in whether clients' keys are the gateway's."""
        ours = admission is not None and admission.asks_for_keys
        self.withheld = frozenset(_CLIENTS_KEY if ours else ())

    def key(self, replica: ReplicaId) -> str | None:
        """What the replica wants to see, if it wants anything."""
        return self._keys.get(replica, self._common)

    def headers(self, replica: ReplicaId) -> RawHeaders:
        """The same as a request carries it."""
        key = self.key(replica)
        return () if key is None else [(b"authorization", b"Bearer " + key.encode())]


class ReplicaAuth(httpx.Auth):
    """The same for what the gateway itself asks replicas."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """httpx's: add the replica's key, if it has one."""
        key = self._credentials.key(replica_id(str(request.url)))
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        yield request


def client(config: Config, credentials: Credentials) -> httpx.AsyncClient:
    """For all that the gateway itself asks replicas."""
    transport = PoolTransport(config.upstream_tls.context())
    hooks = {"response": [untied]}
    return httpx.AsyncClient(auth=ReplicaAuth(credentials), transport=transport, event_hooks=hooks)
