import msgspec
from membership_world import SOURCES, A, membership_world, replica, update
from prometheus_client import CollectorRegistry

from gateway.kv.actions import FeedCounters
from gateway.state import StateCollector
from routing.breaker import BreakerRules
from routing.health import Health

ENGINE = {"replica": A.replica, "engine": "0"}


async def test_it_tells_how_old_what_the_index_says_can_be_and_how_many_messages_it_lacks() -> None:
    async with membership_world() as world:
        world.membership.join(replica(), SOURCES)
        registry = CollectorRegistry()
        health = Health(world.fleet, BreakerRules(5, 3, 1.0, 60.0), 0.0)
        registry.register(StateCollector(world.fleet, health, world.index, world.membership, lambda: 100.0))

        def told(name: str) -> float | None:
            return registry.get_sample_value(f"kvgate_kv_{name}", ENGINE)

        world.membership.take_in(update(1, []))
        assert told("staleness_seconds") is None, "nothing was ever certain"
        assert told("sequence_lag") is None, "nothing was ever heard"

        feed = FeedCounters(heard_seq=9, last_seq=7, last_ts=1e9, applied_at=93.0, confirmed_at=96.5)
        world.membership.take_in(msgspec.structs.replace(update(1, []), feed=feed))
        assert told("staleness_seconds") == 3.5
        assert told("last_event_age_seconds") == 7.0
        assert told("sequence") == 7
        assert told("sequence_lag") == 2

        # What was booked is lost, so everything heard is missing.
        feed = msgspec.structs.replace(feed, last_seq=None, last_ts=None)
        world.membership.take_in(msgspec.structs.replace(update(1, []), feed=feed))
        assert told("sequence") is None
        assert told("sequence_lag") == 10
