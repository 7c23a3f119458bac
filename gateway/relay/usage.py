"""What an engine says it did for a request."""

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Counts of tokens. cached_tokens is None when the engine does not tell (vLLM: --enable-prompt-tokens-details)."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Answer(msgspec.Struct, gc=False):
    """The members of an answer, or of one event of a stream, that the gateway reads."""

    usage: _Usage | None = None
    choices: list[msgspec.Raw] | None = None
    error: msgspec.Raw | None = None
    system_fingerprint: str | None = None

    def counts(self) -> Usage | None:
        if self.usage is None:
            return None
        details = self.usage.prompt_tokens_details
        cached = details.cached_tokens if details is not None else None
        return Usage(self.usage.prompt_tokens, self.usage.completion_tokens or 0, cached)


_DECODER = msgspec.json.Decoder(Answer)


def read_answer(body: bytes) -> Answer | None:
    """None if `body` is not JSON of an answer's form."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError:
        return None
