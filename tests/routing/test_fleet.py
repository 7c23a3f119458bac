from routing.fleet import Fleet, Lease, ModelCard, Replica
from routing.load import EngineLoad, Report
from routing.types import EngineId, Namespace, ReplicaId


def replica(name: str = "a:1", *models: str, ranks: int = 1, block_size: int = 16) -> Replica:
    cards = tuple(ModelCard(model) for model in models or ("m",))
    return Replica(ReplicaId(name), f"http://{name}", cards, ranks=ranks, block_size=block_size)


def test_a_lease_counts_until_it_is_released_however_often_that_is_said() -> None:
    load = EngineLoad()
    lease = Lease(load, prompt_tokens=100, new_tokens=30, now=0.0)
    assert (load.in_flight, load.pending, load.pending_tokens, load.context_tokens) == (1, 1, 30, 0)
    assert load.pending_pairs == 30 * 70 + 30 * 30 // 2
    lease.first_token(0.0)
    lease.first_token(0.0)
    assert (load.in_flight, load.pending, load.pending_tokens, load.context_tokens) == (1, 0, 0, 100)
    assert load.pending_pairs == 0
    lease.release(0.0)
    lease.release(0.0)
    assert load == EngineLoad(begun=1)


def test_a_lease_released_before_its_first_token_leaves_nothing() -> None:
    load = EngineLoad()
    lease = Lease(load, 100, 30, 0.0)
    lease.release(0.0)
    lease.first_token(0.0)
    assert load == EngineLoad(begun=1)


def test_what_an_engine_reports_beyond_ours_is_others() -> None:
    load = EngineLoad()
    Lease(load, 10, 10, 0.0).first_token(0.0)
    load.observe(Report(running=3, waiting=5), load.mark())
    assert (load.others_running, load.others_waiting, load.running) == (2, 5, 3)


def test_a_report_does_not_count_a_request_of_ours_that_ended_or_began_meanwhile() -> None:
    load = EngineLoad()
    ending = Lease(load, 10, 10, 0.0)
    mark = load.mark()
    ending.release(0.0)
    beginning = Lease(load, 10, 10, 0.0)
    load.observe(Report(running=2), mark)
    beginning.release(0.0)
    assert (load.others_running, load.others_waiting, load.running) == (0, 0, 0)


def test_every_rank_of_a_replica_is_an_engine() -> None:
    fleet = Fleet()
    joined = fleet.join(replica(ranks=2))
    assert [engine.id for engine in joined] == [EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("a:1"), 1)]
    assert len(fleet.serving("m")) == 2


def test_all_names_of_a_replica_find_it() -> None:
    fleet = Fleet()
    fleet.join(replica("a:1", "m", "alias"))
    fleet.join(replica("b:1", "m"))
    assert len(fleet.serving("m")) == 2
    assert [engine.id.replica for engine in fleet.serving("alias")] == ["a:1"]
    assert fleet.serving("other") == ()
    assert len(fleet.serving(None)) == 2


def test_a_request_that_names_no_model_is_for_the_only_one() -> None:
    fleet = Fleet()
    assert fleet.only_model() is None
    fleet.join(replica("a:1", "m", "alias", ranks=2))
    assert fleet.only_model() == "m"
    fleet.join(replica("b:1", "other"))
    assert fleet.only_model() is None


def test_joining_again_keeps_the_load_and_takes_in_what_changed() -> None:
    fleet = Fleet()
    [before] = fleet.join(replica("a:1", "m"))
    lease = Lease(before.load, 10, 10, 0.0)
    [after] = fleet.join(replica("a:1", "m", "adapter"))
    assert after.load.in_flight == 1
    assert len(fleet) == 1
    assert fleet.serving("adapter")
    lease.release(0.0)
    assert after.load.in_flight == 0


def test_joining_again_keeps_the_place_in_the_order_and_drops_ranks_that_are_gone() -> None:
    fleet = Fleet()
    fleet.join(replica("a:1", ranks=3))
    fleet.join(replica("b:1"))
    fleet.join(replica("a:1", ranks=2))
    in_order = [EngineId(ReplicaId("a:1"), 0), EngineId(ReplicaId("a:1"), 1), EngineId(ReplicaId("b:1"), 0)]
    assert [engine.id for engine in fleet] == in_order
    assert [engine.id for engine in fleet.serving("m")] == in_order


def test_a_replica_that_left_is_found_under_no_name() -> None:
    fleet = Fleet()
    fleet.join(replica("a:1", ranks=2))
    assert len(fleet.leave(ReplicaId("a:1"))) == 2
    assert fleet.leave(ReplicaId("a:1")) == []
    assert fleet.serving("m") == ()
    assert len(fleet) == 0


def test_an_engine_whose_events_have_another_block_size_gets_a_namespace_of_its_own() -> None:
    fleet = Fleet()
    fleet.join(replica("a:1"))
    fleet.join(replica("b:1"))
    assert fleet.namespaces("m") == {Namespace("m", 16)}
    fleet.learn_block_size(EngineId(ReplicaId("b:1"), 0), 32)
    fleet.learn_block_size(EngineId(ReplicaId("gone:1"), 0), 64)
    assert fleet.namespaces("m") == {Namespace("m", 16), Namespace("m", 32)}


def test_the_base_model_is_the_first_name_that_is_not_an_adapters() -> None:
    cards = (ModelCard("lora", parent="m"), ModelCard("m", root="/models/m"))
    described = Replica(ReplicaId("a:1"), "http://a:1", cards)
    assert described.base.root == "/models/m"
    assert described.is_adapter("lora")
    assert not described.is_adapter("m")
