"""Asks through the gateway with the official client and holds every answer against what the gateway predicted."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx
from openai import OpenAI, omit
from openai.types import Completion, CompletionUsage
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
)

from tests.engine.exchange import Exchange, Verdict
from tests.engine.gateway_server import GatewayServer
from tests.engine.settled import settled
from tests.engine.vllm_cpu.server import MODEL, VllmServer

Prompt = Mapping[str, object] | Sequence[int]
"""What a request's prompt is made of, as /tokenize takes it, or its token ids."""


@dataclass(slots=True)
class Witness:
    """What was asked in a test, and what became of it."""

    gateway: GatewayServer
    replicas: Sequence[VllmServer]
    client: OpenAI
    control: httpx.Client
    """for the gateway's admin surface and the engines themselves"""
    verdicts: Counter[Verdict]
    """of everything that was judged; added to"""
    exchanges: list[Exchange] = field(default_factory=list)
    _judged: int = 0

    def chat(
        self,
        messages: Sequence[ChatCompletionMessageParam],
        max_tokens: int = 8,
        tools: Sequence[ChatCompletionFunctionToolParam] = (),
    ) -> ChatCompletion:
        """Ask for a plain chat."""
        sent = time.time()
        raw = self.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=messages, max_tokens=max_tokens, tools=tools or omit
        )
        answer = raw.parse()
        self._record(raw.headers, {"messages": messages, "tools": tools or None}, answer.usage, sent)
        return answer

    def stream(
        self,
        messages: Sequence[ChatCompletionMessageParam],
        max_tokens: int = 8,
        tools: Sequence[ChatCompletionFunctionToolParam] = (),
    ) -> list[ChatCompletionChunk]:
        """Ask for a streamed chat, with usage, and read it to the end."""
        sent = time.time()
        raw = self.client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=messages,
            max_tokens=max_tokens,
            tools=tools or omit,
            stream=True,
            stream_options={"include_usage": True},
        )
        with raw.parse() as stream:
            chunks = list(stream)
        self._record(raw.headers, {"messages": messages, "tools": tools or None}, chunks[-1].usage, sent)
        return chunks

    def complete(self, prompt: str | Sequence[int], max_tokens: int = 8) -> Completion:
        """Ask for a completion of a text or of token ids."""
        sent = time.time()
        raw = self.client.completions.with_raw_response.create(model=MODEL, prompt=prompt, max_tokens=max_tokens)
        answer = raw.parse()
        self._record(raw.headers, {"prompt": prompt} if isinstance(prompt, str) else prompt, answer.usage, sent)
        return answer

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    def settle(self, prompts: Iterable[Sequence[int]] = ()) -> Mapping[Verdict, int]:
        """Wait until the gateway has every event, and judge what was asked since the last time.

        prompts: token ids of what others have asked.
        Asserts that the gateway's index is then what the events imply: of each engine the last sequence number and the
        number of blocks, and of each prompt asked the cached tokens that /explain names.
        """
        caches = {
            replica.id: [settled(self.gateway, replica, rank) for rank in range(replica.ranks)]
            for replica in self.replicas
        }
        for tokens in {exchange.tokens for exchange in self.exchanges} | set(map(tuple, prompts)):
            implied = {
                (replica, rank): held.cached_tokens(tokens)
                for replica, ranks in caches.items()
                for rank, held in enumerate(ranks)
            }
            explained = self._explained(tokens)
            assert explained == implied, f"/explain: {explained}, events imply: {implied}"
        judged = Counter(exchange.verdict(caches[exchange.replica]) for exchange in self.exchanges[self._judged :])
        self._judged = len(self.exchanges)
        self.verdicts.update(judged)
        return judged

    def _explained(self, tokens: Sequence[int]) -> Mapping[tuple[str, int], int]:
        """Cached tokens that the gateway would predict for a prompt on each engine."""
        answer = self.control.post(
            f"{self.gateway.url}/explain",
            params={"endpoint": "/v1/completions"},
            json={"model": MODEL, "prompt": tokens},
        ).raise_for_status()
        return {(found["replica"], found["engine"]): found["tokens"]["l0"] for found in answer.json()["candidates"]}

    def _record(self, headers: Mapping[str, str], prompt: Prompt, usage: CompletionUsage | None, sent: float) -> None:
        ended = time.time()
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        replica, predicted = headers["x-kvgate-replica"], headers.get("x-kvgate-cached-tokens")
        tokens = self._tokenize(replica, prompt)
        assert usage.prompt_tokens == len(tokens)
        self.exchanges.append(
            Exchange(
                replica=replica,
                tokens=tokens,
                predicted=None if predicted is None else int(predicted),
                reported=usage.prompt_tokens_details.cached_tokens or 0,
                sent=sent,
                ended=ended,
            )
        )

    def _tokenize(self, replica: str, prompt: Prompt) -> tuple[int, ...]:
        """A prompt as the engine that had it tokenizes it."""
        if isinstance(prompt, Mapping):
            answer = self.control.post(f"http://{replica}/tokenize", json={"model": MODEL, **prompt})
            return tuple(answer.raise_for_status().json()["tokens"])
        return tuple(prompt)
