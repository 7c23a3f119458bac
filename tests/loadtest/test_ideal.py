import httpx
import pytest

from loadtest.ideal import ideal_hit_ratio
from loadtest.play import play
from loadtest.replica.serve import ReplicaSettings, serve
from loadtest.replica.text import Text
from loadtest.workload import ChatShape, chat

SHAPE = ChatShape(
    conversations=1, turns=5, groups=1, system_sentences=4, question_sentences=2, begin_within=0.1, pause=0.001
)


async def test_one_replica_with_room_for_all_is_ideal(text: Text) -> None:
    async with (
        serve(ReplicaSettings(time_scale=0.01), text) as replica,
        httpx.AsyncClient(base_url=replica.url) as client,
    ):
        exchanges = await play(replica.url, "sim", chat(SHAPE, 1), 40, lambda: None)
        ideal = await ideal_hit_ratio(client, exchanges, 16)
        counters = replica.engine.counters
    assert counters.hit > 0
    assert ideal == pytest.approx(counters.hit / counters.queried)
