"""The HTTP side of one simulated replica: its routes."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from loadtest.replica.calls import Kind, Model, Refusal
from loadtest.replica.generate import Generate
from loadtest.replica.operations import Operations
from loadtest.replica.publisher import Publisher
from loadtest.replica.ranks import Ranks
from loadtest.replica.render import Render
from loadtest.replica.speech import Speaker
from loadtest.replica.text import Text


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse(error.body, error.status)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code)


def create_app(
    model: Model,
    ranks: Ranks,
    text: Text,
    speaker: Speaker,
    publishers: Sequence[Publisher],
    scale_out: bool = False,
) -> Starlette:
    """The routes of one replica. publishers: by rank. The caller runs the drivers.

    scale_out: whether it answers the render routes, as vLLM does with `--enable-scale-out`.
    """
    operations = Operations(model, ranks, text, publishers)
    chat, completion = (Generate(kind, model, ranks, text, speaker) for kind in (Kind.CHAT, Kind.COMPLETION))
    render_chat, render_completion = (Render(kind, model, text, scale_out) for kind in (Kind.CHAT, Kind.COMPLETION))
    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/completions", completion, methods=["POST"]),
            Route("/v1/chat/completions/render", render_chat.answer, methods=["POST"]),
            Route("/v1/completions/render", render_completion.answer, methods=["POST"]),
            Route("/v1/models", operations.models),
            Route("/health", operations.health),
            Route("/ping", operations.health, methods=["GET", "POST"]),
            Route("/version", operations.version),
            Route("/metrics", operations.metrics),
            Route("/load", operations.load),
            Route("/kv_event_sources", operations.kv_event_sources),
            Route("/reset_prefix_cache", operations.reset_prefix_cache, methods=["POST"]),
            Route("/simulated/held", operations.held, methods=["POST"]),
            Route("/tokenize", operations.tokenize, methods=["POST"]),
            Route("/detokenize", operations.detokenize, methods=["POST"]),
        ],
        exception_handlers={Refusal: _refused, HTTPException: _no_route},
    )
