"""What is asked and what has to come back: every answer can be told from every other."""

import json
import random
from collections.abc import Mapping
from typing import Any

import xxhash

MODEL = "endure"


def request(nonce: str, tokens: int, filler: int, *, stream: bool, pace_ms: int = 0) -> bytes:
    """A chat's body. tokens: of the answer. filler: bytes of the prompt. pace_ms: between two events of a stream."""
    content = f"{nonce} " + random.Random(nonce).randbytes(filler // 2).hex()
    digest = xxhash.xxh3_64_hexdigest(content.encode())
    body = {
        "model": MODEL, "messages": [{"role": "user", "content": content}], "stream": stream, "max_tokens": tokens,
        "user": nonce, "metadata": {"digest": digest, "pace_ms": pace_ms},
    }  # fmt: skip
    return json.dumps(body).encode()


def answer(body: Mapping[str, Any]) -> list[str]:
    """The words of the answer to a request; other ones where it did not come as it was sent."""
    content = body["messages"][0]["content"]
    if xxhash.xxh3_64_hexdigest(content.encode()) != body["metadata"]["digest"]:
        return ["damaged"]
    return expected(body["user"], body["max_tokens"])


def expected(nonce: str, tokens: int) -> list[str]:
    """The words that answer a request that came as it was sent."""
    return [f"{nonce}:{number} " for number in range(tokens)]
