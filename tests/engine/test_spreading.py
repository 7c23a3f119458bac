"""kv-aware keeps a prefix where it is until that replica has more to do than a second copy costs everybody."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.engine.exchange import Verdict
from tests.engine.prompts import ask, prose, token_ids
from tests.engine.vllm_cpu.server import BLOCK_SIZE
from tests.engine.witness import Witness

BURST = 24
TAIL = 240
"""Tokens of each request's own. All together are some ten times the prefix; work and room price a copy at some six."""
CROWD = 8


def test_a_burst_that_shares_a_prefix_uses_both_replicas(witness: Witness) -> None:
    prefix = token_ids("shared prefix", 16 * BLOCK_SIZE)
    witness.complete(prefix)
    assert witness.settle() == {Verdict.EXACT: 1}

    def follow(number: int) -> None:
        witness.complete([*prefix, *token_ids(f"tail {number}", TAIL)], max_tokens=8)

    with ThreadPoolExecutor(BURST) as clients:
        list(clients.map(follow, range(BURST)))
    judged = witness.settle()
    assert judged[Verdict.EXACT] > 0
    assert Verdict.WRONG not in judged
    assert {exchange.replica for exchange in witness.exchanges} == {replica.id for replica in witness.replicas}


def test_equal_prompts_that_come_together_go_to_one_replica(witness: Witness) -> None:
    with ThreadPoolExecutor(2) as clients:
        list(clients.map(witness.chat, [ask("together", 200)] * 2))
    assert Verdict.WRONG not in witness.settle()
    assert len({exchange.replica for exchange in witness.exchanges}) == 1


def test_separate_prompts_spread_over_an_idle_fleet(witness: Witness) -> None:
    for number in range(12):
        witness.complete(prose(f"separate {number}", 100), max_tokens=1)
    assert witness.settle() == {Verdict.EXACT: 12}
    assert {exchange.replica for exchange in witness.exchanges} == {replica.id for replica in witness.replicas}


def test_a_crowd_that_evicts_its_own_prompts_is_exact_but_for_races(witness: Witness) -> None:
    prompts = [token_ids(f"crowd {number}", 8 * BLOCK_SIZE + 1) for number in range(45)]

    def ask_around(client: int) -> None:
        for prompt in Random(client).choices(prompts, k=12):
            witness.complete(prompt, max_tokens=2)

    with ThreadPoolExecutor(CROWD) as clients:
        list(clients.map(ask_around, range(CROWD)))
    judged = witness.settle()
    assert Verdict.WRONG not in judged
    assert judged[Verdict.EXACT] > CROWD * 12 / 2
