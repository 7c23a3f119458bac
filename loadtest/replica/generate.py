"""The two generating endpoints of a simulated replica."""

import asyncio
import json
from collections.abc import Sequence

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from loadtest.replica.answers import Writer
from loadtest.replica.calls import Call, Kind, Model, Refusal, read, understand
from loadtest.replica.driver import Answer
from loadtest.replica.ranks import HEADER, Ranks
from loadtest.replica.request import Request
from loadtest.replica.speech import Speaker
from loadtest.replica.text import Text

_FAILED = {
    "error": {"message": "Internal server error", "type": "InternalServerError", "param": None, "code": 500}
}  # fmt: skip
"""vLLM's words where stored blocks can't be loaded and `kv_load_failure_policy` is `fail`"""


class Generate:
    """`POST /v1/chat/completions` or `/v1/completions`, as an ASGI application."""

    def __init__(self, kind: Kind, model: Model, ranks: Ranks, text: Text, speaker: Speaker) -> None:
        self._kind = kind
        self._model = model
        self._ranks = ranks
        self._text = text
        self._speaker = speaker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        try:
            fields = read(await http.body())
            call = understand(self._kind, fields, http.headers, self._model, self._text)
            driver = self._ranks.taking(http.headers.get(HEADER))
        except ClientDisconnect:
            return
        except Refusal as refusal:
            await JSONResponse(refusal.body, refusal.status)(scope, receive, send)
            return
        answer = driver.submit(self._requests(call))
        leaving = asyncio.create_task(_leave(receive, answer))
        try:
            writer = Writer(call, answer.requests, self._model.name, self._text)
            await (_stream if call.stream else _whole)(answer, writer, send)
        finally:
            leaving.cancel()
            driver.close(answer)

    def _requests(self, call: Call) -> list[Request]:
        size = self._ranks.block_size
        return [
            Request(
                f"{call.id}-{prompt_index}-{choice}",
                prompt,
                self._output(call, prompt, choice),
                size,
                end_token=self._text.end,
                salt=call.salt,
                session=call.session,
            )
            for prompt_index, prompt in enumerate(call.prompts)
            for choice in range(call.choices)
        ]

    def _output(self, call: Call, prompt: Sequence[int], choice: int) -> list[int]:
        if call.tool is None:
            return self._speaker.reply(prompt, call.limit, variant=choice, ignore_end=call.ignore_end)
        spoken = '<tool_call>\n{"name": ' + json.dumps(call.tool) + ', "arguments": {}}\n</tool_call>'
        return [*self._text.encode(spoken), self._text.end][: call.limit]


async def _leave(receive: Receive, answer: Answer) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    answer.tokens.put_nowait(None)


async def _stream(answer: Answer, writer: Writer, send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    opened = False
    while (token := await answer.tokens.get()) is not None:
        chunks = [*writer.token(token)] if opened else [*writer.opening(), *writer.token(token)]
        opened = True
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if answer.failed:
        event = b"data: " + json.dumps(_FAILED).encode() + b"\n\ndata: [DONE]\n\n"
        await send({"type": "http.response.body", "body": event, "more_body": False})
        return
    if answer.unfinished:
        return
    await send({"type": "http.response.body", "body": b"".join(writer.closing()), "more_body": False})


async def _whole(answer: Answer, writer: Writer, send: Send) -> None:
    while await answer.tokens.get() is not None:
        pass
    if answer.failed:
        failed = json.dumps(_FAILED).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(failed)).encode())]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        await send({"type": "http.response.body", "body": failed, "more_body": False})
        return
    if answer.unfinished:
        return
    body = json.dumps(writer.whole(), separators=(",", ":"), ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
