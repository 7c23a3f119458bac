import httpx

from loadtest.ideal import ideal_hit_ratio
from loadtest.replica.engine import DEFAULT_BLOCK_SIZE
from loadtest.trial import Trial, fleet, measure
from loadtest.workload import ChatShape

TRIAL = Trial(
    replicas=2,
    profile="llama-8b-l40s",
    shape=ChatShape(
        conversations=4, turns=3, groups=2, system_sentences=10, question_sentences=5, begin_within=1.0, pause=0.1
    ),
    reply_tokens=8,
    seed=1,
)


async def test_a_policy_is_measured_through_a_real_gateway_from_empty_caches() -> None:
    answered: list[None] = []
    async with fleet(TRIAL) as replicas:
        first = await measure(TRIAL, "kv-aware", replicas, lambda: answered.append(None))
        second = await measure(TRIAL, "kv-aware", replicas, lambda: None)
        async with httpx.AsyncClient(base_url=replicas[0]) as client:
            ideal = await ideal_hit_ratio(client, second.exchanges, DEFAULT_BLOCK_SIZE)
    assert len(answered) == TRIAL.shape.requests
    for result in (first, second):
        assert result.hit_ratio == result.cached_tokens / result.prompt_tokens
        assert 0.5 * ideal < result.hit_ratio <= ideal
    assert {one.text for one in first.exchanges} == {one.text for one in second.exchanges}
