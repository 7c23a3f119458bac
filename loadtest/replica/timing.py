"""How long an engine step takes, per model and GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Profile:
    """A linear cost model of one engine, fitted to one model on one kind of GPU.

    `prefill_ms = a + b n + q n (cached + n / 2)`: n tokens computed after `cached` tokens. The last term is attention:
    each of the n tokens looks back on half of n on average, and on all that was there before.
    `itl_ms = d + e B + f B ctx`: B sequences decode one token each; `ctx` is their mean context length, so `B ctx` is
    the tokens of KV that a step reads (f agrees with KV bytes per token over memory bandwidth on all three profiles).
    """

    name: str
    a: float
    """ms per step that prefills"""
    b: float
    """ms per token computed"""
    q: float
    """ms per pair of token computed and token looked back on"""
    d: float
    """ms per step that decodes: reading the weights"""
    e: float
    """ms per decoding sequence"""
    f: float
    """ms per token of context"""
    l0_tokens: int
    """tokens of KV cache in GPU memory"""

    def scaled(self, factor: float) -> "Profile":
        """The same engine on something that takes `factor` times as long."""
        return replace(self, **{key: factor * getattr(self, key) for key in "abqdef"})

    def prefill_ms(self, tokens: int, cached: int) -> float:
        """One prompt's prefill in one step: `tokens` > 0 computed after `cached` >= 0."""
        return self.a + self.chunk_ms(tokens, cached)

    def chunk_ms(self, tokens: int, before: int) -> float:
        """A part of a prefill without the step's fixed part. Parts of one prompt add up to the whole."""
        return self.b * tokens + self.q * tokens * (before + tokens / 2)

    def itl_ms(self, sequences: int, context: int) -> float:
        """A step that only decodes. context: tokens of all its sequences together."""
        return self.d + self.e * sequences + self.f * context

    def step_ms(self, chunks_ms: float, sequences: int, context: int) -> float:
        """A step of prefill chunks (sum of `chunk_ms`, 0 if none) and decoding sequences together.

        The weights are read once, behind whichever part takes longer: the fixed part of decoding costs only what the
        prefill does not hide.
        """
        if not chunks_ms:
            return self.itl_ms(sequences, context)
        prefill = self.a + chunks_ms
        if not sequences:
            return prefill
        return max(prefill, self.d) + self.e * sequences + self.f * context


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile("qwen3-32b-h100", 3.98, 0.04996, 1.567e-6, 13.7, 0.028, 4.24e-5, 307_328),
            Profile("llama-8b-l40s", 0.62, 0.07061, 2.764e-6, 21.8, 0.059, 1.88e-4, 190_048),
            Profile("llama-8b-h100", 1.34, 0.02035, 7.67e-7, 6.3, 0.012, 4.19e-5, 442_047),
        )
    }
)
"""Qwen3-32B on two H100 (tensor parallel), Llama-3.1-8B on an L40S, Llama-3.1-8B on an H100."""
