from routing.breaker import BreakerRules, Fault
from routing.fleet import Fleet, ModelCard, Replica
from routing.health import Health
from routing.types import ReplicaId

A, B, C = ReplicaId("a:1"), ReplicaId("b:1"), ReplicaId("c:1")
RULES = BreakerRules(failures=3, connections=2)


def fleet(*models: str, at: float = 0.0, slow_start: float = 0.0) -> tuple[Fleet, Health]:
    """One replica of each of the models, named a:1, b:1, ..."""
    members = Fleet()
    health = Health(members, RULES, slow_start)
    for name, model in zip((A, B, C), models, strict=False):
        members.join(Replica(name, f"http://{name}", (ModelCard(model),)))
        health.joined(name, at)
    return members, health


def fail(health: Health, replica: ReplicaId, times: int = 3, fault: Fault = Fault.APPLICATION) -> bool:
    return [health.fail(replica, fault, request, 0.0) for request in range(times)][-1]


def test_nobody_is_passed_over_while_all_are_well() -> None:
    _, health = fleet("m", "m")
    assert health.out(0.0, 0.5) == (frozenset(), frozenset())
    assert not health.begin(A)
    health.succeed(A)


def test_one_that_fails_is_passed_over_then_tried_then_taken_back() -> None:
    _, health = fleet("m", "m")
    assert fail(health, A)
    assert health.out(4.9, 0.5).always == {A}
    assert health.out(5.0, 0.5).always == set()
    assert health.begin(A)
    assert health.out(5.0, 0.5).always == {A}
    assert health.answer(A, trial=True)
    health.end_trial(A)
    health.succeed(A)
    assert list(health.states(5.0)) == [(A, "ready"), (B, "ready")]


def test_one_that_takes_nothing_is_asked_last_for_a_while() -> None:
    _, health = fleet("m", "m")
    health.busy(A, 0.0)
    assert health.out(0.9, 0.5) == (frozenset(), {A})
    assert list(health.states(0.9)) == [(A, "ready"), (B, "ready")]
    assert health.out(1.0, 0.5) == (frozenset(), frozenset())


def test_the_last_one_is_never_left_alone() -> None:
    _, health = fleet("m", "m")
    assert fail(health, A)
    assert not fail(health, B, times=50)
    assert not fail(health, B, times=50, fault=Fault.CONNECTION)
    assert health.out(0.0, 0.5).always == {A}


def test_one_that_serves_another_model_is_no_other() -> None:
    _, health = fleet("m", "n")
    assert not fail(health, A, times=50)


def test_requests_that_fail_everywhere_leave_nobody_alone() -> None:
    _, health = fleet("m", "m", "m")
    for request in range(300):
        assert not health.fail((A, B, C)[request % 3], Fault.APPLICATION, request, 0.0)


def test_of_those_that_fail_only_the_one_that_others_do_better_than_is_left_alone() -> None:
    _, health = fleet("m", "m", "m")
    for request in range(30):
        health.fail(A, Fault.APPLICATION, request, 0.0)
        health.fail(B, Fault.APPLICATION, request, 0.0)
        health.succeed(B)
    assert health.out(0.0, 0.5).always == {A}


def test_a_trial_that_fails_leaves_it_alone_for_longer() -> None:
    _, health = fleet("m", "m")
    fail(health, A)
    assert health.begin(A)
    assert health.fail(A, Fault.APPLICATION, 9, 5.0, trial=True)
    health.end_trial(A)
    assert health.out(14.9, 0.5).always == {A}
    assert health.out(15.0, 0.5).always == set()


def test_what_sleeps_or_drains_is_passed_over_even_if_it_is_the_last() -> None:
    _, health = fleet("m", "m")
    assert health.sleeps(A, True)
    assert not health.sleeps(A, True)
    health.drain(B, True)
    assert health.out(0.0, 0.5).always == {A, B}
    assert list(health.states(0.0)) == [(A, "asleep"), (B, "draining")]
    assert health.rests(A, 0.0)
    assert not health.rests(B, 0.0), "what only a draining one can do, it still does"
    assert health.sleeps(A, False)
    health.drain(B, False)
    assert health.out(0.0, 0.5).always == set()


def test_one_that_joins_a_running_fleet_starts_slowly() -> None:
    members, health = fleet("m", "m", slow_start=10.0)
    assert health.out(0.0, 0.99).rather == set(), "all start together"
    members.join(Replica(C, f"http://{C}", (ModelCard("m"),)))
    health.joined(C, 100.0)
    shares = []
    for after in (0.0, 5.0, 9.0):
        passed_over = [C in health.out(100.0 + after, chance / 100).rather for chance in range(100)]
        shares.append(100 - sum(passed_over))
    assert shares == [10, 50, 90]
    assert health.out(100.0, 0.5).always == set()
    assert health.out(110.0, 0.99).rather == set()


def test_one_that_left_and_came_back_has_nothing_held_against_it() -> None:
    members, health = fleet("m", "m")
    fail(health, A)
    members.leave(A)
    health.left(A)
    assert not health.fail(A, Fault.CONNECTION, 1, 0.0), "an answer that was still running"
    members.join(Replica(A, f"http://{A}", (ModelCard("m"),)))
    health.joined(A, 1.0)
    assert health.out(1.0, 0.5).always == set()
