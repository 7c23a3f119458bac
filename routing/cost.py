"""Predicted time to first token, in seconds: the one currency in which candidates are compared."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from routing.load import EngineLoad


@dataclass(frozen=True, slots=True)
class Profile:
    """How fast an engine is: seconds, by token."""

    prefill_base: float
    prefill_per_token: float
    prefill_per_token_squared: float
    """attention: for each new token and each token before it"""
    decode_base: float
    decode_per_request: float
    decode_per_request_token: float
    """for each running request and each token of its context"""
    l1_base: float = 0.0
    l1_per_token: float = 0.0
    """host memory to GPU"""
    prefill_chunk: int = 8192
    """tokens that one engine step prefills at the most (vLLM's `max_num_batched_tokens`)"""

    def prefill(self, new: float, cached: float) -> float:
        """Time to prefill `new` tokens behind `cached` ones."""
        return (
            self.prefill_base + self.prefill_per_token * new + self.prefill_per_token_squared * new * (cached + new / 2)
        )

    def spared(self, cached: int) -> float:
        """Time that a prompt's prefill takes less because its first `cached` tokens are: however long it is."""
        return cached * (self.prefill_per_token + self.prefill_per_token_squared * cached / 2)

    def decode(self, running: int, context: float) -> float:
        """What `running` decoding requests of `context` tokens each add to an engine step, weights aside."""
        return self.decode_per_request * running + self.decode_per_request_token * running * context

    def load_l1(self, tokens: int) -> float:
        """Time to bring `tokens` from host memory into the GPU; 0 for none."""
        return self.l1_base + self.l1_per_token * tokens if tokens else 0.0


def profile_from_ms(
    a: float, b: float, q: float, d: float, e: float, f: float, l1_base_ms: float = 1.0, l1_ms_per_token: float = 0.003
) -> Profile:
    """A profile from figures in milliseconds: `prefill = a + b n + q n (cached + n/2)`, `itl = d + e B + f B ctx`."""
    ms = 1e-3
    return Profile(a * ms, b * ms, q * ms, d * ms, e * ms, f * ms, l1_base_ms * ms, l1_ms_per_token * ms)


PROFILES = {
    "qwen3-32b-h100": profile_from_ms(3.98, 0.04996, 1.567e-6, 13.7, 0.028, 4.24e-5),
    "llama-8b-l40s": profile_from_ms(0.62, 0.07061, 2.764e-6, 21.8, 0.059, 1.88e-4),
    "llama-8b-h100": profile_from_ms(1.34, 0.02035, 7.67e-7, 6.3, 0.012, 4.19e-5),
}
"""Start values: Qwen3-32B on two H100, Llama-8B on an L40S and on an H100."""


class Prediction(NamedTuple):
    """Predicted time to first token by term, in seconds."""

    queue: float
    """prompts that are in front, or running requests that must leave the KV cache first"""
    decode: float
    """requests that decode in the same steps"""
    load: float
    """host memory to GPU"""
    prefill: float
    """what of the prompt must be computed"""
    room: float = 0.0
    """what the blocks that it pushes out would have saved others, and what filling the fuller cache costs"""
    shared: float = 0.0
    """shared storage to GPU"""
    spared: float = 0.0
    """prefill that shared storage spares; no part of the sum. Where it is less than `shared`, loading does not pay"""
    work: float = 0.0
    """what its prefill, and its place in a full KV cache, take from those who come later"""
    moving: float = 0.0
    """what it would be worth to stay with the rest of its conversation, where this is not the place"""

    @property
    def ttft(self) -> float:
        """What this request waits for its first token."""
        return self.queue + self.decode + self.load + self.shared + self.prefill

    @property
    def cost(self) -> float:
        """What policies compare: the wait, and what it costs those who come later."""
        queue, decode, load, prefill, room, shared, _, work, moving = self
        return queue + decode + load + shared + prefill + room + work + moving


made = tuple.__new__
"""Makes a named tuple of all its fields in a third of the time that its own constructor takes."""
UNPREDICTED = Prediction(0.0, 0.0, 0.0, 0.0)
"""Of a choice that does not depend on it."""


Stake = tuple[float, float, float]
"""What others have at stake in a placement: room and moving, both seconds as in `Prediction`, and the seconds that each
second of prefill, or of waiting for memory, costs those who come later.

A plain tuple, as one is made of every engine for every decision.
"""

NOTHING_AT_STAKE: Stake = (0.0, 0.0, 0.0)
MEANWHILE = 0.5
"""What counts of the time for which a prompt keeps others out of a full KV cache, as a share: meanwhile they wait for
the prompts in front, too."""


def predict(
    profile: Profile,
    load: EngineLoad,
    l0: int,
    l1: int,
    prompt: int,
    waiting_prompt: float,
    now: float,
    l2: int = 0,
    loading_l2: float = 0.0,
    stake: Stake = NOTHING_AT_STAKE,
    capacity: int = 0,
) -> Prediction:
    """Predict a request's time to first token on one engine.

    l0, l1: tokens of the prompt in GPU memory, and in GPU or host memory; l1 >= l0.
    prompt: its tokens, >= l1.
    waiting_prompt: tokens that a waiting request of somebody else is thought to prefill.
    l2: tokens beyond l1 that it loads from shared storage, which takes `loading_l2` seconds. An engine loads what it
    finds whether that pays or not, so a load that does not pay is counted as what it is.
    capacity: tokens that its KV cache holds; 0 where that is not known.

    Prompts in front are prefilled in the same engine steps as long as these have room, so the fixed part is paid once
    a step, not once a prompt. While they are prefilled others end and leave the cache, so of the two waits the longer
    one counts. Where there is one for memory, those who come later wait for ours, too.
    """
    in_front = load.pending_tokens + load.others_waiting * waiting_prompt
    held = l1 + l2
    new = prompt - held
    steps = ceil((in_front + new) / profile.prefill_chunk) or 1
    ours = _in_front(profile, load, now) if load.pending else 0.0
    others = profile.prefill_per_token * load.others_waiting * waiting_prompt
    queue = ours + others
    fits = load.until_it_fits(in_front + prompt, capacity) if capacity else 0.0
    crowding = 0.0
    if fits:
        crowding = MEANWHILE * min(load.residence * prompt / capacity, fits)
        queue = max(queue, fits)
    queue += profile.prefill_base * (steps - 1)
    prefill = profile.prefill(new, held)
    running = load.running
    decode = _decode(profile, running, load.context_tokens, steps, queue + prefill) if running else 0.0
    loading = profile.load_l1(l1 - l0) if l1 > l0 else 0.0
    spared = profile.prefill(prompt - l1, l1) - prefill if l2 else 0.0
    room, moving, behind = stake
    work = behind * (prefill + crowding)
    return made(Prediction, (queue, decode, loading, prefill, room, loading_l2, spared, work, moving))


def _in_front(profile: Profile, load: EngineLoad, now: float) -> float:
    """What is left to be done for prompts that gateways have sent there, of which there are some.

    Where all are ours we know which is the first and since when it is. Where others' are among them nobody does, and
    the first is half done on average.
    """
    whole = profile.prefill_per_token * load.pending_tokens + profile.prefill_per_token_squared * load.pending_pairs
    line = load.line
    if len(line) != load.pending:
        return whole * (1 - 0.5 / load.pending)
    tokens, pairs = line.first
    first = profile.prefill_per_token * tokens + profile.prefill_per_token_squared * pairs
    done = now - line.since
    return whole - (done if done < first else first)


def _decode(profile: Profile, running: int, context: int, steps: int, prefills: float) -> float:
    """What requests that decode there add.

    A request that arrives waits for half a step on average. Then the steps that prefill decode too: the weights are
    read once, behind whichever part takes longer.
    """
    decoding = profile.decode(running, context / running)
    weights = profile.decode_base
    under_way = (weights + decoding) / 2
    return under_way + steps * decoding + (weights - prefills if weights > prefills else 0.0)
