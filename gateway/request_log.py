"""The one log line of each request."""

import asyncio
import time
from typing import TextIO

from gateway.log import Times
from gateway.relay.account import Ended

_HELD_SECONDS = 0.1


class RequestLog:
    """The one line of each request, in the same form as all others, at level INFO.

    Lines are held for a tenth of a second and written together: through `logging`, one by one, they would cost a fifth
    of what a request does. Belongs to the event loop.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._times = Times()
        self._lines: list[str] = []

    def write(self, ended: Ended) -> None:
        """Add a request's line."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_HELD_SECONDS, self.flush)
        self._lines.append(f"{self._times.text(time.time())} INFO kvgate.request {_line(ended)}\n")

    def flush(self) -> None:
        """Write what is held."""
        lines, self._lines = self._lines, []
        self._stream.write("".join(lines))
        self._stream.flush()


def _line(ended: Ended) -> str:
    """Never text, tokens or keys."""
    inbound, decision, outcome = ended.inbound, ended.decision, ended.outcome
    usage = outcome.usage
    prompt, cached = (usage.prompt_tokens, usage.cached_tokens) if usage else (None, None)
    first = "None" if ended.ttft is None else f"{ended.ttft:.4f}"
    return (
        f"{inbound.id} model={inbound.model} replica={decision.engine.replica} engine={decision.engine.rank} "
        f"policy={decision.policy} outcome={ended.how} status={outcome.status} prompt={prompt} cached={cached} "
        f"predicted={decision.cached_tokens} ttft={first} duration={ended.duration:.4f} reason={decision.reason}"
    )
