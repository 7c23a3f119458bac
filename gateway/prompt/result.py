"""What reading a prompt gives: the engine's token ids, or the reason why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a request is routed without a prefix. The closed set of values of the metric's `reason` label."""

    ENDPOINT = "endpoint"
    """this path bears no prompt, or not one that a causal model caches"""
    MALFORMED = "malformed"
    """a field that makes the prompt is missing, or of a type that the engine refuses or converts"""
    REFUSED = "refused"
    """the engine answers 400: the template rejects the conversation, or a template came with an untrusted request"""
    EMPTY = "empty"
    """there is nothing to encode"""
    UNENCODABLE = "unencodable"
    """text with lone surrogates, which has no UTF-8 form"""
    NO_TEMPLATE = "no_template"
    """the model has no chat template that the gateway can find"""
    TEMPLATE_ARGUMENTS = "template_arguments"
    """`chat_template_kwargs` names an argument of the tokenizer's own, which may change how it renders"""
    FORWARDED_IDS = "forwarded_ids"
    """`kv_transfer_params.prompt_token_ids` replaces the prompt, whatever the messages say"""
    PROMPT_EMBEDS = "prompt_embeds"
    """embeddings stand in for tokens"""
    PROMPT_LOGPROBS = "prompt_logprobs"
    """the engine recomputes every prompt token, so a cache is of no use"""
    TRUNCATION = "truncation"
    """the prompt is cut at a length that only the engine knows"""
    STORED = "stored"
    """the prompt continues a response that one replica has stored"""
    CONVERSION = "conversion"
    """the engine converts an item of this request by rules that are not reproduced here"""
    PAIRS = "pairs"
    """the model puts the texts of a score or rerank together in a way that is not known here"""
    PER_TOKEN = "per_token"
    """something is wanted of each token (late interaction, token classes), so the engine computes them all again"""
    REMOTE = "remote"
    """a replica was asked to tokenize and did not answer in time or refused"""


@dataclass(frozen=True, slots=True)
class EncodedPrompts:
    """What the engine will see."""

    prompts: tuple[Sequence[int], ...]
    """token ids in [0, 2**32), one sequence for each engine prompt; several for a completion with a list"""
    salt: str | None = None
    """the request's `cache_salt`"""
    images_from: int | None = None
    """how many leading tokens come before the first image, video or audio; None without any. The ids end there"""


@dataclass(frozen=True, slots=True)
class Unscored:
    """The prompt is not known; the request can still be sent."""

    reason: Reason


class CannotScore(Exception):
    """Ends the reading of a prompt. Never leaves this package: `PromptReader.read` turns it into `Unscored`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
