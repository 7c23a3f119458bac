import asyncio
from dataclasses import dataclass, field

from gateway.background import Background
from gateway.config import ReplicaConfig
from gateway.fleet.discovery.reconcile import Identity, identity
from gateway.fleet.discovery.roster import Roster


def replica(uid: str = "a", **fields: object) -> ReplicaConfig:
    return ReplicaConfig.model_validate({"url": "http://10.0.0.1:8000", "uid": uid, **fields})


@dataclass
class Diary:
    entries: list[str] = field(default_factory=list)


@dataclass
class Watch:
    """Writes down what happens; slow to let go."""

    replica: ReplicaConfig
    diary: Diary

    def change(self, replica: ReplicaConfig) -> None:
        self.diary.entries.append(f"{replica.uid} weighs {replica.weight:g}")

    async def run(self) -> None:
        self.diary.entries.append(f"{self.replica.uid} watched")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.diary.entries.append(f"{self.replica.uid} let go")


async def steps() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_an_address_is_let_go_before_its_next_owner_is_watched() -> None:
    diary, gone = Diary(), list[Identity]()
    async with Background() as background:
        roster = Roster(lambda config: Watch(config, diary), background, gone=gone.append)
        roster.want([replica("a")])
        await steps()
        roster.want([replica("b")])
        await steps()
        roster.close()
    assert diary.entries == ["a watched", "a let go", "b watched", "b let go"]
    assert gone == [identity(replica("a")), identity(replica("b"))]


async def test_of_owners_in_quick_turn_each_waits_for_all_before_it() -> None:
    diary = Diary()
    async with Background() as background:
        roster = Roster(lambda config: Watch(config, diary), background)
        roster.want([replica("a")])
        await steps()
        roster.want([replica("b")])
        roster.want([replica("c")])
        await steps()
        roster.close()
    assert diary.entries == ["a watched", "a let go", "c watched", "c let go"]


async def test_one_that_comes_and_goes_in_one_breath_is_never_watched() -> None:
    diary = Diary()
    async with Background() as background:
        roster = Roster(lambda config: Watch(config, diary), background)
        for uid in ("a", "b", "c"):
            roster.want([replica(uid)])
        await steps()
        roster.close()
    assert diary.entries == ["c watched", "c let go"]


async def test_what_changed_of_a_replica_reaches_its_watch() -> None:
    diary = Diary()
    async with Background() as background:
        roster = Roster(lambda config: Watch(config, diary), background)
        roster.want([replica()])
        await steps()
        roster.want([replica(weight=2)])
        roster.want([replica(weight=2)])
        roster.close()
    assert diary.entries == ["a watched", "a weighs 2", "a let go"]


async def test_who_drains_is_said_once_and_not_of_the_next_owner_of_its_address() -> None:
    said: list[tuple[str, bool]] = []
    async with Background() as background:
        roster = Roster(
            lambda config: Watch(config, Diary()),
            background,
            drain=lambda replica, draining: said.append((replica, draining)),
        )
        roster.want([replica()])
        assert said == []
        roster.want([replica(draining=True)])
        roster.want([replica(draining=True, weight=2)])
        assert said == [("10.0.0.1:8000", True)]
        roster.want([replica("b")])
        assert said == [("10.0.0.1:8000", True), ("10.0.0.1:8000", False)]
        roster.close()


async def test_what_is_said_of_a_replica_is_told_before_it_is_watched_and_when_it_changes() -> None:
    diary = Diary()
    async with Background() as background:
        roster = Roster(
            lambda config: Watch(config, diary),
            background,
            introduce=lambda config: diary.entries.append(f"{config.weight:g} said"),
        )
        roster.want([replica()])
        await steps()
        roster.want([replica(weight=2)])
        roster.want([replica(weight=2)])
        roster.close()
    assert diary.entries == ["1 said", "a watched", "2 said", "a weighs 2", "a let go"]
