"""List and watch, by Kubernetes' plain HTTP API.

Plain, because two requests are all there is to it: `kubernetes_asyncio` would bring aiohttp and its generated client
for every kind there is, and leave the re-listing, which is the difficult part, to us all the same.
"""

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec

from gateway.fleet.discovery.kube_objects import Page, Status, WatchEvent

_PAGE = 500
"""objects asked for at once"""
_SLACK = 5.0
"""seconds that the server may be late in ending a watch"""


class KubeError(Exception):
    """The API did not give what was asked. `kind`: `api` (it refused or can't be reached), `expired` (410: what the
    resource version refers to is forgotten there) or `broken` (an answer stopped in the middle)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Collection(NamedTuple):
    """The objects of one kind in one namespace that carry some labels."""

    path: str
    """such as `/api/v1/namespaces/ml/pods`"""
    labels: str
    """a label selector; empty for all"""


class KubeApi:
    """The API of one cluster. server: URL without a trailing slash; token: file that is read anew for each request, as
    projected tokens are replaced while they are in use; timeout: seconds for a list and for connecting."""

    def __init__(self, client: httpx.AsyncClient, server: str, token: Path | None, timeout: float) -> None:
        self._client = client
        self._server = server
        self._token = token
        self._timeout = timeout

    async def list(self, collection: Collection) -> tuple[list[msgspec.Raw], str]:
        """All objects as JSON, and the resource version that they are the state of. Raises KubeError."""
        items: list[msgspec.Raw] = []
        parameters = {"limit": str(_PAGE)}
        while True:
            page = await self._page(collection, parameters)
            items += page.items or ()
            if not page.metadata.continue_:
                return items, page.metadata.resource_version
            parameters["continue"] = page.metadata.continue_

    async def watch(self, collection: Collection, version: str, seconds: float) -> AsyncGenerator[WatchEvent, None]:
        """What happens to the objects after `version`, for about so many seconds. Raises KubeError."""
        parameters = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        request = self._request(collection, parameters, httpx.Timeout(self._timeout, read=seconds + _SLACK))
        try:
            response = await self._client.send(request, stream=True)
            async with aclosing(response):
                if response.is_error:
                    raise _refused(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    if line:
                        yield _event(line)
        except httpx.HTTPError as exc:
            raise KubeError("broken", f"the watch broke: {exc or type(exc).__name__}") from exc

    async def _page(self, collection: Collection, parameters: Mapping[str, str]) -> Page:
        try:
            response = await self._client.send(self._request(collection, parameters, httpx.Timeout(self._timeout)))
        except httpx.HTTPError as exc:
            raise KubeError("api", f"{self._server} can't be reached: {exc or type(exc).__name__}") from exc
        if response.is_error:
            raise _refused(response.status_code, response.content)
        try:
            return msgspec.json.decode(response.content, type=Page)
        except msgspec.DecodeError as exc:
            raise KubeError("broken", f"{collection.path} answered no list: {exc}") from exc

    def _request(self, collection: Collection, parameters: Mapping[str, str], timeout: httpx.Timeout) -> httpx.Request:
        query = dict(parameters)
        if collection.labels:
            query["labelSelector"] = collection.labels
        headers = {"accept": "application/json"}
        if self._token is not None:
            try:
                headers["authorization"] = f"Bearer {self._token.read_text().strip()}"
            except OSError as exc:
                raise KubeError("api", f"{self._token}: {exc.strerror}") from exc
        extensions = {"timeout": timeout.as_dict()}
        url = self._server + collection.path
        return self._client.build_request("GET", url, params=query, headers=headers, extensions=extensions)


def trust(ca: Path | None) -> ssl.SSLContext:
    """Whom to believe that it is the API: the cluster's authority, or the system's where there is no such file.

    Raises OSError for a file that is none of certificates.
    """
    return ssl.create_default_context(cafile=ca if ca is not None and ca.exists() else None)


def _event(line: str) -> WatchEvent:
    try:
        event = msgspec.json.decode(line, type=WatchEvent)
        if event.type != "ERROR":
            return event
        status = msgspec.json.decode(event.object, type=Status)
    except msgspec.DecodeError as exc:
        raise KubeError("broken", f"the watch sent no event: {exc}") from exc
    raise KubeError("expired" if status.code == httpx.codes.GONE else "api", f"the watch ended: {status.message}")


def _refused(code: int, body: bytes) -> KubeError:
    try:
        message = msgspec.json.decode(body, type=Status).message
    except msgspec.DecodeError:
        message = ""
    return KubeError("expired" if code == httpx.codes.GONE else "api", f"{code} {message}".strip())
