"""What keeps a request from being scored whoever tokenizes it."""

from collections.abc import Mapping
from typing import Any

from gateway.prompt import fields
from gateway.prompt.result import CannotScore, Reason


def refuse_unscorable(endpoint: str, body: Mapping[str, Any]) -> None:
    """Raises CannotScore where the engine doesn't take its prompt from the request's text, or no cache would help.

    endpoint: the path, as `/v1/chat/completions`.
    """
    if fields.mapping(body, "kv_transfer_params").get("prompt_token_ids") is not None:
        raise CannotScore(Reason.FORWARDED_IDS)
    if endpoint == "/v1/responses" and body.get("previous_response_id") is not None:
        raise CannotScore(Reason.STORED)
    if endpoint not in ("/v1/chat/completions", "/v1/completions"):
        return
    if body.get("prompt_embeds") is not None:
        raise CannotScore(Reason.PROMPT_EMBEDS)
    if body.get("prompt_logprobs") is not None or _echoes_logprobs(endpoint, body):
        raise CannotScore(Reason.PROMPT_LOGPROBS)


def _echoes_logprobs(endpoint: str, body: Mapping[str, Any]) -> bool:
    """Whether `echo` makes the engine compute log probabilities of the prompt, as it does for every chat."""
    if body.get("echo") is None or not fields.flag(body, "echo", False):
        return False
    return endpoint == "/v1/chat/completions" or fields.whole(body, "logprobs") is not None
