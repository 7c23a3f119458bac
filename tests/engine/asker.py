"""Asks any endpoint through a gateway and tells what it predicted and what the engine reported."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from openai import OpenAI

from tests.engine.exchange import Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.settled import settled
from tests.engine.shapes import CHAT, COMPLETIONS, EMBEDDINGS, ENDPOINTS, LIMITS, RESPONSES, Body, prompts
from tests.engine.vllm_cpu.server import MODEL, VllmServer

PROMPT_TOKENS, CACHED_TOKENS = "vllm:request_prompt_tokens_sum", "vllm:prompt_tokens_cached_total"
Ids = tuple[tuple[int, ...], ...]
"""the token ids of each of a request's prompts"""


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer says it took, in tokens."""

    prompt: int
    cached: int

    @classmethod
    def of(cls, usage: Mapping[str, Any]) -> "Usage":
        """From any of the three spellings: chats and completions, responses, messages."""
        if "prompt_tokens" in usage:
            return cls(usage["prompt_tokens"], (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        if "input_tokens_details" in usage:
            return cls(usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"])
        read, written = (usage.get(f"cache_{done}_input_tokens") or 0 for done in ("read", "creation"))
        return cls(usage["input_tokens"] + read + written, read)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a request."""

    predicted: int | None
    """cached tokens, from the response header; None where there was none"""
    usage: Usage
    said: object
    """the answer's content, in its endpoint's form, without ids and times"""

    @property
    def exact(self) -> bool:
        """Whether the engine found in its cache what the gateway had said."""
        return self.predicted == self.usage.cached


@dataclass(slots=True)
class Asker:
    """A client of one gateway in front of one replica of one rank."""

    gateway: GatewayServer
    replica: VllmServer
    client: OpenAI
    control: httpx.Client
    """for what the official client does not know, and for the engine itself"""
    verdicts: Counter[Verdict]
    """of every answer; added to"""

    def ask(self, endpoint: str, body: Body, model: str = MODEL) -> Answer:
        """Send a request, judge its prediction, and wait until the gateway has the engine's events of it.

        Asserts that /explain had said the same as the prediction.
        """
        body = {"model": model, **LIMITS.get(endpoint, {}), **body}
        explained, counted = self.explain(endpoint, body), self.counters()
        headers, content = self._post(endpoint, body)
        usage = Usage.of(content["usage"])
        if endpoint not in ENDPOINTS or prompts(body) > 1:  # usage tells nothing of the cache, or only of one prompt
            usage = self.counted(counted, usage.prompt)
        return self._judged(explained, Answer(_predicted(headers), usage, _said(content)))

    def stream(self, endpoint: str, body: Body) -> Answer:
        """As `ask`, with the answer as a stream of events that has the usage."""
        body = {"model": MODEL, "stream": True, **LIMITS[endpoint], **body}
        if endpoint in (CHAT, COMPLETIONS):
            body["stream_options"] = {"include_usage": True}
        explained = self.explain(endpoint, body)
        usage: Mapping[str, Any] = {}
        with self.control.stream("POST", f"{self.gateway.url}{endpoint}", json=body) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line.removeprefix("data: "))
                    inner = event.get("response") or event.get("message") or event
                    usage = {**usage, **(inner.get("usage") or {})}
        return self._judged(explained, Answer(_predicted(answer.headers), Usage.of(usage), None))

    def explain(self, endpoint: str, body: Body) -> Mapping[str, Any]:
        """What the gateway makes of a request that it does not send."""
        asked = {"model": MODEL, **body}
        answer = self.gateway.admin.post("/explain", params={"endpoint": endpoint}, json=asked).raise_for_status()
        explained: Mapping[str, Any] = answer.json()
        return explained

    def rendered(self, endpoint: str, body: Body) -> Ids:
        """The ids that the engine makes of a request, by its own render route."""
        url = f"{self.replica.url}{endpoint}/render"
        answer = self.control.post(url, json={"model": MODEL, **LIMITS[endpoint], **body}).raise_for_status().json()
        return tuple(tuple(one["token_ids"]) for one in (answer if isinstance(answer, list) else [answer]))

    def _judged(self, explained: Mapping[str, Any], answer: Answer) -> Answer:
        # One request at a time, each after the events of the one before: there are no races.
        under = answer.predicted is not None and answer.predicted < answer.usage.cached
        self.verdicts[Verdict.EXACT if answer.exact else Verdict.UNDER if under else Verdict.WRONG] += 1
        assert explained["cached_tokens"] == answer.predicted
        settled(self.gateway, self.replica)
        return answer

    def _post(self, endpoint: str, body: Body) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Headers and content of an answer, by the official client where it knows the endpoint."""
        model = body["model"]
        if endpoint == CHAT:
            chat = self.client.chat.completions.with_raw_response.create(model=model, messages=(), extra_body=body)
            return chat.headers, chat.parse().model_dump()
        if endpoint == COMPLETIONS:
            completion = self.client.completions.with_raw_response.create(model=model, prompt="", extra_body=body)
            return completion.headers, completion.parse().model_dump()
        if endpoint == RESPONSES:
            response = self.client.responses.with_raw_response.create(model=model, input="", extra_body=body)
            return response.headers, response.parse().model_dump()
        if endpoint == EMBEDDINGS:
            embedding = self.client.embeddings.with_raw_response.create(model=model, input="", extra_body=body)
            return embedding.headers, embedding.parse().model_dump()
        answer = self.control.post(f"{self.gateway.url}{endpoint}", json=body).raise_for_status()
        return answer.headers, answer.json()

    def counters(self) -> Usage:
        """The engine's own counters, since it started."""
        values: Counter[str] = Counter()
        for line in self.control.get(f"{self.replica.url}/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            if name in (PROMPT_TOKENS, CACHED_TOKENS):
                values[name] += int(float(value))
        return Usage(values[PROMPT_TOKENS], values[CACHED_TOKENS])

    def counted(self, before: Usage, prompt: int) -> Usage:
        """What the counters have gone up by, once they have all `prompt` tokens of a request."""
        deadline = time.monotonic() + 5.0
        while (now := self.counters()).prompt - before.prompt < prompt:
            assert time.monotonic() < deadline, "the engine did not count a request"
            time.sleep(0.01)
        return Usage(now.prompt - before.prompt, now.cached - before.cached)


def _predicted(headers: Mapping[str, str]) -> int | None:
    predicted = headers.get("x-kvgate-cached-tokens")
    return None if predicted is None else int(predicted)


def _said(content: Mapping[str, Any]) -> object:
    if "choices" in content:
        return content["choices"]
    if ("object" in content and "data" in content) or "results" in content:
        return content.get("data") or content["results"]
    parts = content.get("output") or content["content"]
    return [{name: value for name, value in part.items() if name not in ("id", "logprobs")} for part in parts]
