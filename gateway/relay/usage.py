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
    """All three spellings: OpenAI's chat and completions, OpenAI's responses, Anthropic's messages."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def counts(self) -> Usage | None:
        details = self.prompt_tokens_details or self.input_tokens_details
        cached = details.cached_tokens if details is not None else self.cache_read_input_tokens
        prompt = self.prompt_tokens
        if prompt is None:
            if self.input_tokens is None:
                return None
            # Anthropic's count is of what was neither read from a cache nor written to one.
            prompt = self.input_tokens + (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        return Usage(prompt, self.completion_tokens or self.output_tokens or 0, cached)


class _Inner(msgspec.Struct, gc=False):
    """What an event of a stream is about: a response or a message."""

    id: str | None = None
    usage: _Usage | None = None


class Answer(msgspec.Struct, gc=False):
    """The members of an answer, or of one event of a stream, that the gateway reads."""

    id: str | None = None
    usage: _Usage | None = None
    choices: list[msgspec.Raw] | None = None
    error: msgspec.Raw | None = None
    system_fingerprint: str | None = None
    response: _Inner | None = None
    message: _Inner | None = None

    def counts(self) -> Usage | None:
        """The tokens counted, however the answer spells them."""
        inner = self.response or self.message
        usage = self.usage or (inner.usage if inner is not None else None)
        return usage.counts() if usage is not None else None


_DECODER = msgspec.json.Decoder(Answer)


def read_answer(body: bytes) -> Answer | None:
    """None if `body` is not JSON of an answer's form."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError:
        return None
