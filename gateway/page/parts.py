"""Builds the dashboard."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time

from fastapi import APIRouter
from prometheus_client import CollectorRegistry

from gateway.config import Config
from gateway.decisions import DecisionRing
from gateway.fleet.membership import Membership
from gateway.log_line import Taker
from gateway.page.comparison import losses, shadow
from gateway.page.routes import routes
from gateway.page.snapshot import Snapshots
from gateway.page.storage import shown
from gateway.page.traffic import Traffic
from gateway.relay.record import Ended
from routing.fleet import Fleet
from routing.health import Health
from routing.index import Holding


class PageParts:
    """What the page is drawn from, and its paths.

    config: the settings as they are now. degraded: what works, but not as it should.
    set_policy: makes another policy the default one.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        degraded: Callable[[], Sequence[str]],
        set_policy: Callable[[str], None],
        fleet: Fleet,
        health: Health,
        index: Holding,
        membership: Membership,
        registry: CollectorRegistry,
        storage_faults: Callable[[], Sequence[str]],
        stopping: Callable[[], bool],
    ) -> None:
        """storage_faults: why shared storage does not count; empty while it does.

        stopping: whether the gateway waits for what runs to end.
        """
        page = config().page

        def more() -> Mapping[str, object]:
            return {
                "storage": shown(config().l2, storage_faults(), config().speed(), registry),
                "losses": losses(registry),
                "shadow": shadow(registry),
            }

        traffic = Traffic(config().speed(), time)
        decisions = DecisionRing(page.decisions)
        snapshots = Snapshots(
            config, degraded, fleet, health, index, membership.streams, more, traffic, decisions, monotonic
        )
        self.ended: Callable[[Ended], None] = traffic.add
        """for `Accounts`"""
        self.takers: Sequence[Taker] = (decisions.add,) if page.decisions else ()
        """for `LogLines`"""
        self.router: APIRouter = routes(snapshots, decisions, set_policy if page.policy_switch else None, stopping)
