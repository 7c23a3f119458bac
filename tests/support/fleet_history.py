"""Random histories of a fleet, against what each engine really holds, whatever the index is."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol

from simulated_fleet import SIZE, Replica, engine_names, names

from routing.types import BlockHash, EngineId, PrefixMatch

LOSS = 0.15
"""share of the messages that are lost while losses happen"""
NOTHING = PrefixMatch(0, 0)


class Deployment(Protocol):
    """Who follows the replicas, and where it is kept."""

    faults: Mapping[str, int]
    """what else can happen, and how often in 100 steps"""

    async def join(self, replica: Replica) -> None:
        """The replica is followed from now on."""

    async def leave(self, replica: Replica) -> None:
        """It is not any more, and forgotten."""

    async def told(self, replica: Replica) -> None:
        """It has told something; have it in the index."""

    async def fail(self, fault: str, replica: Replica) -> None:
        """One of `faults` hits."""

    def followed(self, replica: Replica) -> bool:
        """Whether somebody follows the replica who has caught up with it."""
        ...

    async def match(self, blocks: Sequence[BlockHash]) -> Mapping[EngineId, PrefixMatch]:
        """As `PrefixIndex.match`."""
        ...


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


class History:
    """What has happened, and what was compared with the truth so far."""

    def __init__(self, random: Random, fleet: Sequence[Replica], deployment: Deployment) -> None:
        self.compared: Counter[str] = Counter()
        self._random = random
        self._fleet = fleet
        self._deployment = deployment
        self._talk = Talk(random)
        self._served = {replica.id: deque[tuple[list[int], str | None]](maxlen=8) for replica in fleet}

    async def play(self, steps: int) -> None:
        """Let so much happen; after each step every match is compared."""
        for step in range(steps):
            replica = self._random.choice(self._fleet)
            await self._step(replica, LOSS if step % 400 >= 250 else 0.0)
            for prompt, salt in self._served[replica.id]:
                matches = await self._deployment.match(names(prompt, salt))
                self._compare(replica, matches, engine_names(prompt, salt), f"step {step}: {replica.id}")
            prompt, salt = self._talk.prompt()
            matches, hashes = await self._deployment.match(names(prompt, salt)), engine_names(prompt, salt)
            for one in self._fleet:
                self._compare(one, matches, hashes, f"step {step}: {one.id}")

    async def _step(self, replica: Replica, loss: float) -> None:
        kinds = {"serve": 60, "twins": 9, "reset": 3, "restart": 1, "join": 20, "leave": 2, "wait": 5}
        kinds.update(self._deployment.faults)
        (kind,) = self._random.choices(list(kinds), list(kinds.values()))
        prompt, salt = self._talk.prompt()
        match kind:
            case "serve":
                replica.serve([prompt], salt, loss=loss)
                self._served[replica.id].append((prompt, salt))
            case "twins":
                whole = prompt[: max(2, len(prompt) // SIZE) * SIZE]
                replica.serve([whole, prompt, whole], salt, loss=loss)
                self._served[replica.id].append((whole, salt))
            case "reset":
                replica.reset()
                replica.serve([], None, loss=0.0)
            case "restart":
                replica.restart()
            case "join" if not replica.joined:
                await self._deployment.join(replica)
            case "leave" if replica.joined:
                await self._deployment.leave(replica)
            case "join" | "leave" | "wait":
                replica.wait(self._random.choice([1.0, 30.0]))
            case fault:
                await self._deployment.fail(fault, replica)
        await self._deployment.told(replica)

    def _compare(
        self, one: Replica, matches: Mapping[EngineId, PrefixMatch], hashes: Sequence[int], where: str
    ) -> None:
        said = matches.get(one.id, NOTHING)
        if not self._deployment.followed(one):
            assert said == NOTHING, f"{where} is not followed"
            self.compared["not followed"] += 1
        elif one.settled:
            truth = one.truth(hashes)
            self.compared["whole" if one.whole else "after a loss"] += 1
            self.compared["held"] += truth.l0 > 0
            self.compared["in host memory"] += truth.l1 > truth.l0
            if one.whole:
                assert said == truth, where
            else:
                assert (said.l0 <= truth.l0, said.l1 <= truth.l1) == (True, True), where
