"""How many requests are worked on at once, and who waits in which order."""

import asyncio
from bisect import insort
from collections.abc import Iterable

from gateway.admission.tenants import Tenant
from gateway.errors import QueueFull, QueueTimeout


class _Ticket:
    """A place in the queue. order: lower is called sooner."""

    __slots__ = ("order", "tenant", "waiter")

    def __init__(self, order: tuple[int, int], tenant: Tenant, waiter: asyncio.Future[None]) -> None:
        self.order = order
        self.tenant = tenant
        self.waiter = waiter

    def __lt__(self, other: "_Ticket") -> bool:
        return self.order < other.order


class Gate:
    """Lets requests in while there is room for all and for their tenant; the others wait, the most urgent first.

    most: requests in flight at once, of all tenants; None for no limit. places: of the queue. patience: seconds in it.
    """

    def __init__(self, most: int | None, places: int, patience: float) -> None:
        self._most = most
        self._places = places
        self._patience = patience
        self._queue: list[_Ticket] = []
        self._numbers = 0
        self._of_tenant: dict[str, int] = {}
        self.in_flight = 0

    def resize(self, most: int | None, places: int, patience: float, tenants: Iterable[Tenant] = ()) -> None:
        """Other limits from now on, for those who wait too; nobody is turned away for them who is in already.

        tenants: those with limits of their own.
        """
        self._most, self._places, self._patience = most, places, patience
        named = {tenant.name: tenant for tenant in tenants}
        for ticket in self._queue:
            ticket.tenant = named.get(ticket.tenant.name, ticket.tenant)
        self._let_in()

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    async def enter(self, tenant: Tenant, priority: int) -> None:
        """Wait for room, which the caller gives back by `leave`. Raises QueueFull, QueueTimeout.

        priority: the higher the sooner; among equals who came first.
        """
        if self._has_room(tenant):
            self._admit(tenant)
            return
        if len(self._queue) >= self._places:
            raise QueueFull
        self._numbers += 1
        ticket = _Ticket((-priority, self._numbers), tenant, asyncio.get_running_loop().create_future())
        insort(self._queue, ticket)
        try:
            async with asyncio.timeout(self._patience):
                await ticket.waiter
        except BaseException as exc:
            if ticket.waiter.done() and not ticket.waiter.cancelled():
                self.leave(tenant)
            else:
                self._queue.remove(ticket)
            if isinstance(exc, TimeoutError):
                raise QueueTimeout from exc
            raise

    def leave(self, tenant: Tenant) -> None:
        """A request that was let in has ended."""
        self.in_flight -= 1
        self._of_tenant[tenant.name] -= 1
        self._let_in()

    def _let_in(self) -> None:
        for ticket in self._queue[:]:
            if self._most is not None and self.in_flight >= self._most:
                break
            if self._has_room(ticket.tenant) and not ticket.waiter.done():
                self._queue.remove(ticket)
                self._admit(ticket.tenant)
                ticket.waiter.set_result(None)

    def _has_room(self, tenant: Tenant) -> bool:
        if self._most is not None and self.in_flight >= self._most:
            return False
        return tenant.max_in_flight is None or self._of_tenant.get(tenant.name, 0) < tenant.max_in_flight

    def _admit(self, tenant: Tenant) -> None:
        self.in_flight += 1
        self._of_tenant[tenant.name] = self._of_tenant.get(tenant.name, 0) + 1
