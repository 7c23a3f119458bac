"""What LMCache's servers report of their memory, put with what engines' events told."""

from collections.abc import Mapping, Sequence

from routing.decision import Prompt
from routing.fleet import Fleet
from routing.types import EngineId, PrefixMatch, ReplicaId


def add_host_memory(
    fleet: Fleet,
    prompts: Sequence[Prompt],
    matches: Sequence[dict[EngineId, PrefixMatch]],
    in_memory: Sequence[Mapping[ReplicaId, int]],
) -> None:
    """Let the longer of both count.

    in_memory: of each prompt, leading tokens by replica; empty where nobody reports.
    """
    for prompt, found, held in zip(prompts, matches, in_memory, strict=False):
        for space in prompt.chains:
            for engine in fleet.serving(space.model):
                blocks = held.get(engine.id.replica, 0) // space.block_size
                if blocks and engine.namespace == space:
                    match = found.get(engine.id, PrefixMatch(0, 0))
                    found[engine.id] = match._replace(l1=max(match.l1, blocks))
