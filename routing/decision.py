"""What is asked of the router and what it answers, as values; named tuples, since each request makes some."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from routing.cost import Prediction
from routing.load import EngineLoad
from routing.types import BlockHash, Chains, EngineId, Namespace, ReplicaId

_NONE: Mapping[Namespace, int] = MappingProxyType({})


class Prompt(NamedTuple):
    """One engine prompt of a request: its length and its blocks."""

    tokens: int
    chains: Chains
    whole: bool = True
    """False where only its beginning is known: the tokens before its first image"""
    repeated: Mapping[Namespace, int] = _NONE
    """how many leading blocks a prompt before it in the same request has too: any engine will hold them by then"""

    @property
    def reusable(self) -> int:
        """Tokens that a cache can spare. vLLM always computes the last one, so a block that holds it is not a hit."""
        return max(0, self.tokens - 1) if self.whole else self.tokens


class RouteRequest(NamedTuple):
    """What the choice may depend on."""

    model: str | None
    """None where the request names no model: any replica will do"""
    prompts: Sequence[Prompt] = ()
    """empty where the prompt's tokens are not known"""
    replica: ReplicaId | None = None
    """the one that can serve it, as long as it is there: it holds what the request refers to"""
    session: str | None = None
    """the client's own name for its conversation or itself, where it gives one"""

    @property
    def whole(self) -> bool:
        """Whether all tokens of all prompts are known."""
        return all(prompt.whole for prompt in self.prompts)

    @property
    def tokens(self) -> int:
        """Prompt tokens in all; 0 where they are not known."""
        return sum(prompt.tokens for prompt in self.prompts)


class Candidate(NamedTuple):
    """One engine that may take the request."""

    engine: EngineId
    load: EngineLoad
    l0: int
    """prompt tokens it will find in GPU memory"""
    l1: int
    """prompt tokens it will find in GPU or host memory"""
    prompt: int
    """prompt tokens in all"""
    prediction: Prediction
    l2: int = 0
    """prompt tokens beyond those that it will load from shared storage"""
    likely: int = 0
    """of all these, tokens that it has only by what other gateways tell"""

    @property
    def held(self) -> int:
        """Prompt tokens that it need not prefill."""
        return self.l1 + self.l2


class Matched(NamedTuple):
    """What the index said of a prompt at the engine that was chosen."""

    blocks: Sequence[BlockHash]
    """the prompt's"""
    block_size: int
    """tokens"""
    in_gpu: int
    """how many leading ones it had in the GPU, and the engine could use"""


class Decision(NamedTuple):
    """Where a request goes and why."""

    engine: EngineId
    policy: str
    reason: str
    prompt_tokens: int
    """0 where they are not known"""
    held_tokens: int
    """of them, those that need no prefill there, as far as is known"""
    cached_tokens: int | None
    """predicted: what the engine will report as cached; None where the prompt was not matched, or not whole"""
    prediction: Prediction
    candidates: Sequence[Candidate]
    l2_tokens: int = 0
    """of the held tokens, those that come from shared storage"""
    credited: Sequence[Sequence[BlockHash]] = ()
    """of each prompt, its blocks: they count as held there from now on (`fresh.FreshRoutes`)"""
    unheld: Sequence[Sequence[BlockHash]] = ()
    """of these, each prompt's that the engine was not known to hold"""
    reusable_tokens: int = 0
    """of the prompt, those that an earlier prompt began with, and that a cache can spare"""
    factor: float = 1.0
    """by which the engine's profile was multiplied for the prediction"""
    matched: Matched | None = None
    """where the request is one whole prompt that was looked up in the index"""

    @property
    def new_tokens(self) -> int:
        """Prompt tokens that the engine has to prefill."""
        return self.prompt_tokens - self.held_tokens
