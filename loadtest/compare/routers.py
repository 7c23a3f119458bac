"""Who is compared through real sockets: kvgate under a policy, or any other OpenAI-compatible router."""

import asyncio
import contextlib
import shlex
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
import yaml

from loadtest.processes import child, consecutive_free_ports, python
from loadtest.replica.timing import Profile
from routing.policies import policy_named

LISTED_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Router(Protocol):
    """Something with an OpenAI API in front of replicas."""

    @property
    def name(self) -> str: ...

    def serving(self, replicas: Sequence[str]) -> contextlib.AbstractAsyncContextManager[str]:
        """Have it serve these URLs within the context. Yields its own. Raises ChildFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Kvgate:
    """kvgate, started as a user would."""

    policy: str
    profile: Profile
    time_scale: float = 1.0
    """real seconds per simulated second of the replicas; the gateway is told how slow they are"""

    @property
    def name(self) -> str:
        """The policy's."""
        return self.policy

    @contextlib.asynccontextmanager
    async def serving(self, replicas: Sequence[str]) -> AsyncIterator[str]:
        """Ready once every tokenizer is loaded."""
        port = consecutive_free_ports(1)
        settings = {
            "listen": {"host": "127.0.0.1", "port": port},
            "policy": self.policy,
            "profile": {key: self.time_scale * getattr(self.profile, key) for key in "abqdef"},
            "log_level": "warning",
            "replicas": [{"url": url} for url in replicas],
        }
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "kvgate.yaml"
            config.write_text(yaml.safe_dump(settings))
            url = f"http://127.0.0.1:{port}"
            async with python(["-m", "gateway", "serve", "--config", str(config)], [f"{url}/readyz"]):
                yield url


@dataclass(frozen=True, slots=True)
class Started:
    """Another program, started for each run.

    command: words, in which `{port}` is where it shall listen, `{replicas}` the replicas' URLs as words of their own,
    `{commas}` the same as one word with commas between. A word with `{replica}` in it is there once for each replica;
    `{events}` in it is where that one publishes its KV events.
    """

    name: str
    command: str
    ready: str = "/health"
    """the path that answers 200 once it serves"""

    @contextlib.asynccontextmanager
    async def serving(self, replicas: Sequence[str]) -> AsyncIterator[str]:
        """Its output is shown if it fails. Raises httpx.HTTPError if replicas are asked for events and don't answer."""
        port = consecutive_free_ports(1)
        events = await _events(replicas) if "{events}" in self.command else [""] * len(replicas)
        words: list[str] = []
        for word in shlex.split(self.command):
            if word == "{replicas}":
                words += replicas
            elif "{replica}" in word:
                each = zip(replicas, events, strict=True)
                words += [word.replace("{replica}", url).replace("{events}", place) for url, place in each]
            else:
                words.append(word.replace("{port}", str(port)).replace("{commas}", ",".join(replicas)))
        url = f"http://127.0.0.1:{port}"
        async with child(words, [url + self.ready]):
            await _listed(url)
            yield url


async def _listed(router: str) -> None:
    """Some are healthy before they know a model: wait while they list none. Names may be their own."""
    async with asyncio.timeout(LISTED_SECONDS), httpx.AsyncClient() as client:
        while True:
            answer = await client.get(f"{router}/v1/models")
            if not answer.is_success or answer.json().get("data") != []:
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _events(replicas: Sequence[str]) -> list[str]:
    """Where each publishes its KV events."""
    async with httpx.AsyncClient() as client:
        answers = [await client.get(f"{url}/kv_event_sources") for url in replicas]
    return [str(answer.raise_for_status().json()["0"]["endpoint"]) for answer in answers]


@dataclass(frozen=True, slots=True)
class Running:
    """A router that runs already, in front of replicas on known ports."""

    name: str
    url: str

    @contextlib.asynccontextmanager
    async def serving(self, replicas: Sequence[str]) -> AsyncIterator[str]:
        """It serves what it serves."""
        yield self.url


def peer(text: str) -> Router:
    """`NAME=http://...` or `NAME=COMMAND`. Raises ValueError."""
    name, separator, rest = text.partition("=")
    if not (name and separator and rest):
        raise ValueError(f"a peer is NAME=URL or NAME=COMMAND, not {text!r}")
    return Running(name, rest.rstrip("/")) if rest.startswith(("http://", "https://")) else Started(name, rest)


def kvgate(policy: str, profile: Profile, time_scale: float = 1.0) -> Router:
    """policy: in any spelling. Raises ValueError for an unknown one."""
    return Kvgate(policy_named(policy).name, profile, time_scale)
