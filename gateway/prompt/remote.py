"""Asking a replica for the tokens of a prompt, for models whose prompts are not reproduced here."""

import asyncio
import json
from array import array
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import httpx

from gateway.prompt import fields
from gateway.prompt.breaker import Breaker
from gateway.prompt.eligible import refuse_unscorable
from gateway.prompt.recent import Recent
from gateway.prompt.result import CannotScore, EncodedPrompts, Reason, Unscored
from gateway.prompt.tokenize_request import tokenize_requests

_NO_PART_OF_THE_PROMPT = frozenset(
    {
        *("stream", "stream_options", "n", "stop", "seed", "user", "metadata", "request_id", "session_id", "priority"),
        *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs"),
    }
)
"""fields that a replica is not told, so that requests which differ only in them are one"""


class RemoteReader:
    """Reads requests' prompts by asking a replica, and remembers the answers.

    `/v1/.../render` is tried first; replicas without vLLM's `--enable-scale-out` are asked at `/tokenize`.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        clock: Callable[[], float],
        *,
        deadline: float = 0.5,
        cache_bytes: int = 64 << 20,
        failures: int = 3,
        pause: float = 5.0,
    ) -> None:
        """deadline: seconds that an answer may take.
        failures: how many in a row make a replica be left alone, for `pause` seconds.
        """
        self._client = client
        self._deadline = deadline
        self._answers: Recent[bytes, EncodedPrompts] = Recent(cache_bytes)
        self._breaker = Breaker(clock, failures=failures, pause=pause)
        self._without_render: set[str] = set()

    async def read(self, replica: str, endpoint: str, body: Mapping[str, Any]) -> EncodedPrompts | Unscored:
        """The prompts of one request.

        replica: its URL, without a path. It must serve the model that the body names.
        endpoint: the path, as `/v1/chat/completions`. body: the decoded JSON object; not changed.
        """
        try:
            refuse_unscorable(endpoint, body)
            asked = {name: value for name, value in body.items() if name not in _NO_PART_OF_THE_PROMPT}
            key = _digest(endpoint, asked)
            known = self._answers.get(key)
            if known is None:
                known = await self._ask(replica, endpoint, asked)
                self._answers.put(key, known, sum(4 * len(prompt) for prompt in known.prompts) + len(key))
        except CannotScore as exc:
            return Unscored(exc.reason)
        except RecursionError:
            return Unscored(Reason.MALFORMED)
        return known

    def forget(self, replica: str) -> None:
        """A replica left, or came back as another: with another model or template of the same name, who knows."""
        self._answers.clear()
        self._without_render.discard(replica)
        self._breaker.forget(replica)

    async def _ask(self, replica: str, endpoint: str, body: Mapping[str, Any]) -> EncodedPrompts:
        salt = fields.salt(body)
        if replica not in self._without_render:
            status, answer = await self._post(replica, f"{endpoint}/render", {**body, "mm_payload": "none"})
            if status == 200:
                return _rendered(answer, salt)
            if status not in (403, 404, 405):
                raise _refusal(status)
            self._without_render.add(replica)
        prompts = []
        for request in tokenize_requests(endpoint, body):
            if isinstance(request, Mapping):
                status, answer = await self._post(replica, "/tokenize", request)
                if status != 200:
                    raise _refusal(status)
                prompts.append(_token_ids(answer, "tokens"))
            else:
                prompts.append(_packed(request, Reason.MALFORMED))
        return EncodedPrompts(tuple(prompts), salt)

    async def _post(self, replica: str, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status below 500 and decoded answer. Raises CannotScore where there is none in time."""
        if not self._breaker.allows(replica):
            raise CannotScore(Reason.REMOTE)
        try:
            # Plain ASCII, so that a lone surrogate is the replica's to refuse.
            content = json.dumps(body).encode()
            headers = {"content-type": "application/json"}
            async with asyncio.timeout(self._deadline):  # httpx would allow so much for each part of the answer
                response = await self._client.post(replica + path, content=content, headers=headers, timeout=None)
            answer = response.json() if response.status_code == 200 else None
        except (httpx.HTTPError, TimeoutError, ValueError) as exc:
            self._breaker.failed(replica)
            raise CannotScore(Reason.REMOTE) from exc
        if response.status_code >= 500:
            self._breaker.failed(replica)
            raise CannotScore(Reason.REMOTE)
        self._breaker.worked(replica)
        return response.status_code, answer


def _refusal(status: int) -> CannotScore:
    return CannotScore(Reason.REFUSED if status in (400, 422) else Reason.REMOTE)


def _digest(endpoint: str, body: Mapping[str, Any]) -> bytes:
    text = json.dumps([endpoint, body], separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).digest()


def _rendered(answer: object, salt: str | None) -> EncodedPrompts:
    """What a render route gave: one object, or a list of them for completions."""
    objects: list[Any] = answer if isinstance(answer, list) else [answer]
    if not objects:
        raise CannotScore(Reason.REMOTE)
    prompts = tuple(_token_ids(one, "token_ids") for one in objects)
    images_from = None
    for one in objects:
        features = one.get("features") or {}
        try:
            starts = [place["offset"] for places in features.get("mm_placeholders", {}).values() for place in places]
        except (AttributeError, LookupError, TypeError) as exc:
            raise CannotScore(Reason.REMOTE) from exc
        if starts:
            images_from = min(starts)
            prompts = tuple(prompt[:images_from] for prompt in prompts)
    return EncodedPrompts(prompts, salt, images_from)


def _token_ids(answer: object, field: str) -> "array[int]":
    if not isinstance(answer, Mapping):
        raise CannotScore(Reason.REMOTE)
    return _packed(answer.get(field), Reason.REMOTE)


def _packed(ids: object, otherwise: Reason) -> "array[int]":
    """Raises CannotScore with the reason `otherwise` for what is no list of token ids."""
    if not isinstance(ids, list) or not ids:
        raise CannotScore(otherwise)
    try:
        return array("I", ids)
    except (TypeError, OverflowError) as exc:
        raise CannotScore(otherwise) from exc
