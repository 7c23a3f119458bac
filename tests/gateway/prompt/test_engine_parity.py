"""The reader gives the ids that vLLM gave for the same request (`vectors/`, recorded with vLLM's own server code)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gateway.prompt.reader import PromptReader
from gateway.prompt.result import EncodedPrompts, Reason, Unscored

Vectors = Callable[[str], list[Mapping[str, Any]]]
Readers = Mapping[str, PromptReader]

RECORDED = ["chat", "completions", "responses", "messages", "tokenize", "pooling"]
SCORING = ("embedding", "separated", "joined", "judging")
SAID_TO_BE_UNKNOWN = {
    ("/v1/completions", "text", "ids as booleans"): Reason.MALFORMED,
    ("/v1/embeddings", "embedding", "cut to nothing"): Reason.TRUNCATION,
    ("/v1/embeddings", "embedding", "padded"): Reason.TRUNCATION,
    ("/score", "separated", "cut"): Reason.TRUNCATION,
    **{
        ("/score", server, why): Reason.TRUNCATION
        for server in SCORING
        for why in ("padded", "queries cut", "documents cut")
    },
}
"""requests, by endpoint and server, that the engine takes and the gateway does not follow, and what it says of them"""


@pytest.mark.parametrize("recorded", RECORDED)
def test_token_ids_are_the_engines(recorded: str, vectors: Vectors, recorded_readers: Readers) -> None:
    wrong = []
    for vector in vectors(recorded):
        result = recorded_readers[vector["server"]].read(vector["endpoint"], vector["body"])
        reason = SAID_TO_BE_UNKNOWN.get((vector["endpoint"], vector["server"], vector["why"]))
        if reason is not None:
            right = result == Unscored(reason)
        elif vector["ids"] is None:
            right = True  # the engine answers 400, so nothing depends on what we thought
        else:
            right = isinstance(result, EncodedPrompts) and [list(prompt) for prompt in result.prompts] == vector["ids"]
        if not right:
            wrong.append((vector["server"], vector["why"], result, vector["ids"]))
    assert wrong == []


@pytest.mark.parametrize("recorded", RECORDED)
def test_the_request_is_not_changed(recorded: str, vectors: Vectors, recorded_readers: Readers) -> None:
    for vector, untouched in zip(vectors(recorded), vectors(recorded), strict=True):
        recorded_readers[vector["server"]].read(vector["endpoint"], vector["body"])
        assert vector == untouched
