"""What goes through to the engines."""

import re

from gateway.errors import UnknownPath
from gateway.stored import PATH as STORED

SCORED = frozenset(
    {
        *("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses"),
        *("/classify", "/pooling", "/rerank", "/score", "/v1/rerank", "/v1/score", "/v2/rerank"),
    }
)
"""Paths whose prompt is read, so that the choice can follow the caches."""
REPORTS_USAGE = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths whose streams end with the usage when asked to."""
UNSCORED = frozenset(
    {
        "/detokenize",
        "/tokenize",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/chat/completions/batch",
        "/v1/messages/count_tokens",
    }
)
"""Paths that go to the least loaded replica. What is in neither set does not go through: engines have administrative
routes under /v1/ too, such as /v1/load_lora_adapter."""
_OF_STORED = {
    method: re.compile(rf"{STORED}/(?!\.+(?:/|$))[^/\\?#%\s\x00-\x1f]+{below}")
    for method, below in (("GET", ""), ("POST", "/cancel"))
}
"""By method, what is asked of an answer that an engine keeps. The id is one segment, as it is for the engine, and none
that somebody on the way could take for a part of another path."""
PROBES = frozenset({"/healthz", "/readyz"})
"""What a load balancer asks where clients come, even if operators have a port of their own."""


def is_engines(path: str) -> bool:
    """Whether a path is for the engines to answer, or to be refused in their form; all others are the gateway's own."""
    return path.startswith("/v1/") or path in SCORED or path in UNSCORED


def check(method: str, path: str) -> None:
    """Raises UnknownPath for what does not go through."""
    if method == "POST" and (path in SCORED or path in UNSCORED):
        return
    if path.startswith(STORED) and method in _OF_STORED and _OF_STORED[method].fullmatch(path):
        return
    raise UnknownPath(f"Unknown request URL: {method} {path}.")
