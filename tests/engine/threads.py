"""Chats, chats with tools, one prompt for all, documents and nothing shared, asked of a gateway as users do."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import httpx

from loadtest.bounds import Lookup, infinite
from loadtest.replica.request import Request
from tests.engine.prompts import prose
from tests.engine.vllm_cpu.server import BLOCK_SIZE, MODEL

TOOLS = ("weather", "calendar", "search", "ticket", "stock")


class Shape(NamedTuple):
    """Threads of turns; words are about tokens."""

    threads: int
    turns: int
    groups: int
    """shared beginnings; 0 for none"""
    shared: int
    question: int
    tools: bool = False


SHAPES = {
    "chat": Shape(24, 6, 4, 560, 80),
    "tools": Shape(24, 6, 4, 560, 40, tools=True),
    "hot": Shape(24, 6, 1, 560, 80),
    "rag": Shape(40, 1, 8, 1400, 20),
    "unique": Shape(60, 1, 0, 0, 560),
}


class Turn(NamedTuple):
    thread: int
    replica: str
    prompt: int
    cached: int
    tokens: Sequence[int]


@dataclass
class Threads:
    """A workload that is under way; whose turn is next is drawn among those that wait."""

    url: str
    shape: Shape
    seed: str
    """of what is asked: another one for each play, or its conversations begin as earlier ones did"""
    client: httpx.Client
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._lock = Lock()
        self._waiting = list(range(self.shape.threads))
        self._asked = Counter[int]()
        self._said = [self._head(thread) for thread in range(self.shape.threads)]

    def play(self, in_flight: int) -> None:
        """Ask everything, so many at a time."""
        with ThreadPoolExecutor(in_flight) as clients:
            for client in [clients.submit(self._ask_on) for _ in range(in_flight)]:
                client.result()

    def hit_ratio(self) -> float:
        """Share of prompt tokens that the engines report as cached."""
        return sum(turn.cached for turn in self.turns) / sum(turn.prompt for turn in self.turns)

    def ideal(self) -> float:
        """The same with one endless cache for all."""
        hashes = [Request("", turn.tokens, (0,), BLOCK_SIZE).hashes for turn in self.turns]
        return infinite(
            [Lookup(t.prompt, h[: (t.prompt - 1) // BLOCK_SIZE], h) for t, h in zip(self.turns, hashes, strict=True)],
            BLOCK_SIZE,
        )

    def max_over_mean(self, replicas: int) -> float:
        """Of the prompt tokens that each replica computed."""
        computed = Counter[str]()
        for turn in self.turns:
            computed[turn.replica] += turn.prompt - turn.cached
        return max(computed.values()) * replicas / computed.total()

    def moved(self) -> float:
        """Share of turns after the first that went to another replica than the turn before."""
        last: dict[int, str] = {}
        moved = later = 0
        for turn in self.turns:
            if turn.thread in last:
                later += 1
                moved += last[turn.thread] != turn.replica
            last[turn.thread] = turn.replica
        return moved / max(1, later)

    def _head(self, thread: int) -> list[dict[str, Any]]:
        if not self.shape.groups:
            return []
        group = thread % self.shape.groups
        return [{"role": "system", "content": prose(f"system {self.seed} {group}", self.shape.shared)}]

    def _ask_on(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                thread = self._waiting.pop(self._random.randrange(len(self._waiting)))
            self._ask(thread)
            with self._lock:
                self._asked[thread] += 1
                if self._asked[thread] < self.shape.turns:
                    self._waiting.append(thread)

    def _ask(self, thread: int) -> None:
        said = self._said[thread]
        said.append(self._next(thread, self._asked[thread]))
        group = thread % self.shape.groups if self.shape.groups else 0
        body: dict[str, Any] = {"model": MODEL, "messages": said}
        if self.shape.tools:
            body["tools"] = [_tool(name, f"{self.seed} {group}") for name in TOOLS]
        answer = self.client.post(
            f"{self.url}/v1/chat/completions", json=body | {"max_tokens": 16, "ignore_eos": True, "tool_choice": "none"}
            if self.shape.tools else body | {"max_tokens": 16, "ignore_eos": True},
        ).raise_for_status()  # fmt: skip
        replica, usage = answer.headers["x-kvgate-replica"], answer.json()["usage"]
        tokens = self.client.post(f"http://{replica}/tokenize", json=body).raise_for_status().json()["tokens"]
        assert len(tokens) == usage["prompt_tokens"]
        with self._lock:
            cached = usage["prompt_tokens_details"]["cached_tokens"] or 0
            self.turns.append(Turn(thread, replica, usage["prompt_tokens"], cached, tokens))
        self._answer(thread, answer.json()["choices"][0]["message"]["content"])

    def _next(self, thread: int, turn: int) -> dict[str, Any]:
        text = prose(f"{self.seed} {thread} {turn}", self.shape.question)
        if self.shape.tools and turn % 2:
            return {"role": "tool", "tool_call_id": f"call-{turn - 1}", "content": text}
        return {"role": "user", "content": text}

    def _answer(self, thread: int, text: str) -> None:
        turn = self._asked[thread]
        if self.shape.tools and turn % 2 == 0:
            call = {"name": TOOLS[turn % len(TOOLS)], "arguments": json.dumps({"place": f"place {thread}"})}
            calls = [{"id": f"call-{turn}", "type": "function", "function": call}]
            self._said[thread].append({"role": "assistant", "content": None, "tool_calls": calls})
        else:
            self._said[thread].append({"role": "assistant", "content": text})


def _tool(name: str, subject: str) -> Mapping[str, Any]:
    place = {"type": "string", "description": prose(f"{subject} {name} place", 30)}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": prose(f"{subject} {name}", 40),
            "parameters": {"type": "object", "properties": {"place": place}, "required": ["place"]},
        },
    }
