"""A client's request as the relay sees it."""

from collections.abc import Callable, Sequence

import msgspec

from gateway.relay.client import Client
from gateway.relay.trace import Trace
from gateway.relay.upload import Upload
from routing.decision import Prompt
from routing.types import ReplicaId


class Inbound(msgspec.Struct, frozen=True):
    """One request, read to its end."""

    client: Client
    id: str
    model: str
    """as the client names it; "" where it names none"""
    body: bytes
    """as it goes to the replica; of an upload, the beginning"""
    hide_usage: bool
    """the gateway added to the body that a stream shall report its usage, so the client must not see that"""
    arrived: float
    """seconds of the gateway's monotonic clock"""
    single: bool = True
    """one prompt and one answer to it; of several, vLLM reports the cached tokens of only one"""
    deadline: float | None = None
    """when the answer must be complete, by the same clock; None for no limit"""
    prompts: Sequence[Prompt] = ()
    """what the choice knew of the prompts: lengths and blocks"""
    tenant: str = ""
    """whose key it came with; "" where no keys are asked for"""
    waited: float = 0.0
    """seconds in the gateway's own queue"""
    upload: Upload | None = None
    """the body, where it is passed on as it comes"""
    trace: Trace | None = None
    """where requests are traced"""
    keeps: Callable[[str, ReplicaId], None] | None = None
    """called with the answer's id and the replica that may keep it, once both are known"""
    counts: bool = True
    """the usage that the answer tells is this request's own, not that of an answer which is asked for again"""
    elsewhere: float = 0.0
    """seconds in which nothing was up to the gateway: its body came in, or replicas did not take it"""

    def own(self, until: float) -> float:
        """Seconds of the gateway's own since it arrived."""
        return until - self.arrived - self.waited - self.elsewhere
