"""Random histories of a fleet: engine, bytes, feed, ledger, index, against what each engine really holds.

KVGATE_STEPS sets how long a history is; `make soak` plays a long one.
"""

import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from simulated_fleet import SIZE, Replica, engine_names, names

from routing.index import PrefixIndex
from routing.types import EngineId, PrefixMatch

REPLICAS = 24
STEPS = int(os.environ.get("KVGATE_STEPS", "1000"))
"""in each history"""
LOSS = 0.15
"""share of the messages that are lost while losses happen"""


class Talk:
    """Prompts that grow from one another, so that engines hold beginnings of them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._prompts: list[tuple[list[int], str | None]] = []

    def prompt(self) -> tuple[list[int], str | None]:
        """One from before, one that goes on from it, one that shares its beginning, or a new one; with its salt."""
        random = self._random
        if not self._prompts or random.random() < 0.05:
            salt = "tenant" if random.random() < 0.2 else None
            return self._keep([], random.randint(5, 60), salt)
        tokens, salt = random.choice(self._prompts[-30:])
        if random.random() < 0.4:
            return tokens, salt
        return self._keep(tokens[: random.randint(0, len(tokens))], random.randint(5, 40), salt)

    def _keep(self, tokens: list[int], more: int, salt: str | None) -> tuple[list[int], str | None]:
        longer = [*tokens[:120], *(self._random.randrange(1000, 1004) for _ in range(more))]
        if self._random.random() < 0.5:
            longer += [0] * max(-len(longer) % SIZE, 2 * SIZE - len(longer))  # whole blocks: the last one gets a twin
        self._prompts.append((longer, salt))
        return longer, salt


@pytest.mark.parametrize("seed", range(2))
def test_the_index_says_what_the_engines_hold_and_after_a_loss_never_more(seed: int) -> None:
    random = Random(seed)
    index, talk = PrefixIndex(), Talk(random)
    fleet = [Replica(number, index, random) for number in range(REPLICAS)]
    served = {replica.id: deque[tuple[list[int], str | None]](maxlen=8) for replica in fleet}
    compared: Counter[str] = Counter()

    def compare(one: Replica, matches: Mapping[EngineId, PrefixMatch], hashes: Sequence[int], where: str) -> None:
        said = matches.get(one.id, PrefixMatch(0, 0))
        if not one.joined:
            assert said == PrefixMatch(0, 0), f"{where} has left"
        elif one.settled:
            truth = one.truth(hashes)
            compared["whole" if one.whole else "after a loss"] += 1
            compared["held"] += truth.l0 > 0
            compared["in host memory"] += truth.l1 > truth.l0
            if one.whole:
                assert said == truth, where
            else:
                assert (said.l0 <= truth.l0, said.l1 <= truth.l1) == (True, True), where

    for step in range(STEPS):
        replica = random.choice(fleet)
        lossy = step % 400 >= 250
        match random.choices(["serve", "twins", "reset", "restart", "join", "leave", "wait"], [60, 9, 3, 1, 20, 2, 5])[
            0
        ]:
            case "serve":
                prompt, salt = talk.prompt()
                replica.serve([prompt], salt, loss=LOSS if lossy else 0.0)
                served[replica.id].append((prompt, salt))
            case "twins":
                prompt, salt = talk.prompt()
                whole = prompt[: max(2, len(prompt) // SIZE) * SIZE]
                replica.serve([whole, prompt, whole], salt, loss=LOSS if lossy else 0.0)
                served[replica.id].append((whole, salt))
            case "reset":
                replica.reset()
                replica.serve([], None, loss=0.0)
            case "restart":
                replica.restart()
            case "join" if not replica.joined:
                replica.join()
            case "leave" if replica.joined:
                replica.leave()
            case _:
                replica.wait(random.choice([1.0, 30.0]))
        for prompt, salt in served[replica.id]:
            matches = index.match(names(prompt, salt))
            compare(replica, matches, engine_names(prompt, salt), f"step {step}: {replica.id}")
        prompt, salt = talk.prompt()
        matches, hashes = index.match(names(prompt, salt)), engine_names(prompt, salt)
        for one in fleet:
            compare(one, matches, hashes, f"step {step}: {one.id}")
    assert min(compared.values()) > STEPS // 10, compared
