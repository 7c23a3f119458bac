"""An emulated Kubernetes API: lists in pages, watches with versions and bookmarks, and the faults of real ones."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = Mapping[str, Any]
BOOKMARKS = 0.05
"""seconds between two bookmarks of a watch"""


def matches(labels: Mapping[str, str], selector: str) -> bool:
    """Equality selectors only: `a=b,c=d`."""
    return all(
        labels.get(key) == value for key, _, value in (part.partition("=") for part in selector.split(",") if part)
    )


@dataclass(eq=False)
class Watcher:
    """One watch that is open. selector: labels that its objects carry."""

    path: str
    selector: str
    queue: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)


@dataclass
class KubeServer:
    """objects: what is true, by collection path and name. lists, watches: requests that were answered so."""

    url: str = ""
    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    version: int = 100
    lists: int = 0
    watches: int = 0
    tokens: list[str] = field(default_factory=list)
    refusal: tuple[int, str] | None = None
    """status and message that every request gets"""
    page: int = 3
    """objects in a page at most"""
    deaf: bool = False
    """changes are made but no watch hears of them"""
    horizon: int = 0
    """versions up to this one are forgotten"""
    _history: list[tuple[int, str, str, Object, Object | None]] = field(default_factory=list)
    _unlisted: dict[str, tuple[int, Sequence[Object]]] = field(default_factory=dict)
    """what the next pages of lists hold, and the version it is of, by the token that the next page is asked for with"""
    _watchers: set[Watcher] = field(default_factory=set)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def watching(self) -> int:
        return len(self._watchers)

    def put(self, path: str, body: Object) -> None:
        """Create or change an object of a collection."""
        name = body["metadata"]["name"]
        before = self.objects.setdefault(path, {}).get(name)
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        self.objects[path][name] = body
        self._record("ADDED" if before is None else "MODIFIED", path, body, before)

    def delete(self, path: str, name: str) -> None:
        self.version += 1
        body = self.objects[path].pop(name)
        self._record("DELETED", path, body, body)

    def drop_watches(self) -> None:
        """Reset every connection, in the middle of whatever it carries."""
        for writer in self._writers:
            writer.transport.abort()

    def end_watches(self) -> None:
        """End every watch as a server does that restarts."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(None)

    def forget(self) -> None:
        """Forget history, and tell the open watches so: 410 as an event."""
        self.horizon = self.version
        self._history.clear()
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        for watcher in self._watchers:
            watcher.queue.put_nowait(_line("ERROR", status))

    def say(self, line: bytes) -> None:
        """Send a line to every watch, whatever it is."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(line)

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """What changes meanwhile reaches no watch, though the watches stay open."""
        self.deaf = True
        try:
            yield
        finally:
            self.deaf = False

    def _record(self, kind: str, path: str, body: Object, before: Object | None) -> None:
        if self.deaf:
            return
        self._history.append((self.version, kind, path, body, before))
        for watcher in self._watchers:
            if watcher.path == path:
                self._deliver(watcher, kind, body, before)

    def _deliver(self, watcher: Watcher, kind: str, body: Object, before: Object | None) -> None:
        """To a watch with a selector, an object that begins to match is new and one that ceases to is deleted."""
        now = matches(body["metadata"].get("labels") or {}, watcher.selector)
        was = before is not None and matches(before["metadata"].get("labels") or {}, watcher.selector)
        if kind == "DELETED":
            if was:
                watcher.queue.put_nowait(_line("DELETED", body))
        elif now:
            watcher.queue.put_nowait(_line("MODIFIED" if was else "ADDED", body))
        elif was:
            watcher.queue.put_nowait(_line("DELETED", body))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._serve(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        target = urlsplit(head.split(" ", 2)[1])
        query = {key: values[0] for key, values in parse_qs(target.query).items()}
        self.tokens += [line[22:] for line in head.split("\r\n") if line.lower().startswith("authorization: bearer ")]
        if self.refusal is not None:
            code, message = self.refusal
            writer.write(_whole(code, {"kind": "Status", "code": code, "message": message}))
        elif query.get("watch") == "1":
            if int(query["resourceVersion"]) < self.horizon:
                writer.write(_whole(410, {"kind": "Status", "code": 410, "message": "too old resource version"}))
            else:
                await self._watch(target.path, query, writer)
                return False
        else:
            writer.write(_whole(200, self._list(target.path, query)))
        await writer.drain()
        return True

    def _list(self, path: str, query: Mapping[str, str]) -> Object:
        """A page. All pages of a list are of the state when the first one was asked for."""
        self.lists += 1
        token = query.get("continue", "")
        version, found = self._unlisted.pop(token) if token else (self.version, self._found(path, query))
        size, token = min(self.page, int(query["limit"])), ""
        if len(found) > size:
            token = f"{version}.{self.lists}"
            self._unlisted[token] = version, found[size:]
        return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": found[:size]}

    def _found(self, path: str, query: Mapping[str, str]) -> Sequence[Object]:
        return [
            body for name, body in sorted(self.objects.get(path, {}).items())
            if matches(body["metadata"].get("labels") or {}, query.get("labelSelector", ""))
        ]  # fmt: skip

    async def _watch(self, path: str, query: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        self.watches += 1
        watcher = Watcher(path, query.get("labelSelector", ""))
        for version, kind, where, body, before in self._history:
            if where == path and version > int(query["resourceVersion"]):
                self._deliver(watcher, kind, body, before)
        self._watchers.add(watcher)
        end = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])
        try:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
            while (left := end - asyncio.get_running_loop().time()) > 0:
                line: bytes | None
                try:
                    line = await asyncio.wait_for(watcher.queue.get(), min(left, BOOKMARKS))
                except TimeoutError:
                    line = _line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})
                if line is None:
                    break
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            self._watchers.discard(watcher)


def _line(kind: str, body: Object) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def _whole(status: int, value: Object) -> bytes:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    return head + body


@contextlib.asynccontextmanager
async def kube_server() -> AsyncIterator[KubeServer]:
    """An emulated API until left."""
    api = KubeServer()
    server = await asyncio.start_server(api.accept, "127.0.0.1", 0)
    api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        server.close()
        api.end_watches()
        api.drop_watches()
