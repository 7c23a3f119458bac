"""A replica that dies and comes back has an empty cache, and the gateway knows."""

from tests.engine.exchange import Verdict
from tests.engine.prompts import ask
from tests.engine.waiting import wait_until
from tests.engine.witness import Witness

EXACT = Verdict.EXACT


def test_a_killed_replica_is_left_out_and_starts_from_nothing_when_it_returns(witness: Witness) -> None:
    gateway = witness.gateway
    witness.chat(ask("survivor"))
    witness.chat(ask("survivor"))
    witness.settle()
    killed = next(replica for replica in witness.replicas if replica.id == witness.last.replica)

    killed.kill()
    try:
        for expected in (False, True):
            witness.chat(ask("survivor"))
            assert witness.last.replica != killed.id
            assert witness.last.predicted == witness.last.reported
            assert (witness.last.reported > 0) == expected
        wait_until("the killed replica out", lambda: gateway.metric("kvgate_replica_up", replica=killed.id) == 0)
    finally:
        killed.start()
    killed.wait_until_ready()
    wait_until("the replica back in", lambda: gateway.metric("kvgate_replica_up", replica=killed.id) == 1)

    assert witness.settle() == {EXACT: 2}
    # One that has come back gets its share little by little, over `limits.slow_start`.
    chosen: list[str] = []
    while len(chosen) < 200 and (len(chosen) < 8 or killed.id not in chosen):
        prompt = ask(f"after the restart {len(chosen)}")
        for _ in range(2):
            witness.chat(prompt)
            assert witness.settle() == {EXACT: 1}
        chosen.append(witness.last.replica)
    assert killed.id in chosen
