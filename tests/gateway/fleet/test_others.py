"""What other gateways tell: counted, credited, and forgotten when they are silent."""

from gateway.fleet.others import PATIENCE, Others, Sent
from routing.fleet import Engine, Fleet, ModelCard, Replica
from routing.fresh import FreshRoutes
from routing.history import RouteHistory
from routing.load import UnderWay
from routing.types import BlockHash, EngineId, PrefixMatch, ReplicaId

ID = EngineId(ReplicaId("a:8000"), 0)
GONE = EngineId(ReplicaId("gone:8000"), 0)
BLOCKS = [BlockHash(number) for number in range(4)]


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.fleet = Fleet()
        self.fresh, self.history = FreshRoutes(2.0), RouteHistory(100, 1_000_000, 60.0)
        self.others = Others(self.fleet, self.fresh, self.history, lambda: self.now)
        self.engine = self.join()

    def join(self) -> Engine:
        (engine,) = self.fleet.join(Replica(ID.replica, "http://a:8000", (ModelCard("m"),)))
        return engine


def test_the_loads_of_all_of_them_add_up() -> None:
    world = World()
    world.others.hear("b", {ID: UnderWay(2, 1, 300, 9, 40)}, [])
    world.others.hear("c", {ID: UnderWay(1, 0, 0, 0, 2)}, [])
    world.others.settle()
    assert world.engine.load.elsewhere == UnderWay(3, 1, 300, 9, 42)
    assert len(world.others) == 2


def test_who_tells_again_is_counted_once() -> None:
    world = World()
    for in_flight in (5, 2):
        world.others.hear("b", {ID: UnderWay(in_flight)}, [])
        world.others.settle()
    assert world.engine.load.in_flight == 2
    world.others.hear("b", {}, [])
    world.others.settle()
    assert world.engine.load.in_flight == 0


def test_who_is_silent_is_forgotten() -> None:
    world = World()
    world.others.hear("b", {ID: UnderWay(2)}, [])
    world.now += PATIENCE / 2
    world.others.hear("c", {ID: UnderWay(1)}, [])
    world.now += PATIENCE / 2
    world.others.settle()
    assert world.engine.load.in_flight == len(world.others) == 1


def test_an_engine_that_comes_back_has_its_load_again() -> None:
    world = World()
    world.others.hear("b", {ID: UnderWay(2)}, [])
    world.others.settle()
    world.fleet.leave(ID.replica)
    back = world.join()
    assert back.load.in_flight == 0
    world.others.settle()
    assert back.load.in_flight == 2


def test_what_they_sent_counts_as_held_for_a_while_and_is_remembered() -> None:
    world = World()
    world.others.hear("b", {}, [Sent(ID, BLOCKS, 2.5), Sent(GONE, BLOCKS, 2.5)])
    assert world.fresh.extend_by_hearsay(ID, BLOCKS, 0, world.now + 2.4) == 4
    assert world.fresh.extend_by_hearsay(ID, BLOCKS, 0, world.now + 2.5) == 0
    assert world.history.match(BLOCKS) == {ID: PrefixMatch(4, 4)}
    assert GONE not in world.fresh.told_of
