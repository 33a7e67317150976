"""How much may be under way, and whose turn it is: bounded by requests and by bytes, shared between tenants.

A tenant may hold as much as is free: alone at most half, two at most a third each, so there is room for another one at
any time. Requests are taken within one limit and begun within a lower one; in between they wait, tenant by tenant.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

ItemT = TypeVar("ItemT")


class Shares:
    """How many of something tenants hold. One may hold as many as are free: alone half of them, and rather one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._of_tenants: Counter[str] = Counter()

    def has_room(self, tenant: str) -> bool:
        return self._of_tenants[tenant] < self.limit - self.held

    def take(self, tenant: str) -> None:
        self._of_tenants[tenant] += 1
        self.held += 1

    def done(self, tenant: str) -> None:
        self.held -= 1
        self._of_tenants[tenant] -= 1
        if not self._of_tenants[tenant]:
            del self._of_tenants[tenant]


@dataclass(slots=True, eq=False)
class Tenant(Generic[ItemT]):
    """What one tenant holds."""

    name: str
    requests: int = 0
    bytes: int = 0
    working: int = 0
    waiting: "deque[tuple[ItemT, int]]" = field(default_factory=lambda: deque[tuple[ItemT, int]]())


class Admission(Generic[ItemT]):
    """Takes requests, hands them out by turns, and knows what they hold until they are done."""

    def __init__(self, requests_limit: int, bytes_limit: int, working_limit: int) -> None:
        """`working_limit` is for the bytes that are worked on or that wait for the socket."""
        self.requests_limit = requests_limit
        self.bytes_limit = bytes_limit
        self._working_limit = working_limit
        self.requests = 0
        self.bytes = 0
        self.working = 0
        self.waiting = 0
        self._tenants: dict[str, Tenant[ItemT]] = {}
        self._turns: deque[Tenant[ItemT]] = deque()

    def take(self, name: str, item: ItemT, size: int, expected: int) -> Tenant[ItemT] | None:
        """Let an item wait for its turn. It holds `size` bytes, and while it is worked on `expected` ones more. None
        where it would be too much."""
        known = self._tenants.get(name)
        tenant: Tenant[ItemT] = Tenant(name) if known is None else known
        if tenant.requests >= self.requests_limit - self.requests:
            return None
        if tenant.bytes + size > self.bytes_limit - self.bytes and self.bytes:
            return None
        self._tenants[name] = tenant
        tenant.requests += 1
        tenant.bytes += size
        self.requests += 1
        self.bytes += size
        self.waiting += 1
        if not tenant.waiting:
            self._turns.append(tenant)
        tenant.waiting.append((item, size + expected))
        return tenant

    def next(self) -> ItemT | None:
        """The item whose turn it is, to be worked on now; None while those at work hold too much."""
        turns = self._turns
        for _ in range(len(turns)):
            tenant = turns.popleft()
            item, weight = tenant.waiting[0]
            if tenant.working + weight > self._working_limit - self.working and self.working:
                turns.append(tenant)
                continue
            tenant.waiting.popleft()
            tenant.working += weight
            self.working += weight
            self.waiting -= 1
            if tenant.waiting:
                turns.append(tenant)
            return item
        return None

    def correct(self, tenant: Tenant[ItemT], held: int, working: int) -> None:
        """Note by how much an item that is worked on holds more or less than was said."""
        tenant.bytes += held
        self.bytes += held
        tenant.working += working
        self.working += working

    def done(self, tenant: Tenant[ItemT], held: int, working: int) -> None:
        """Let go of an item and its bytes."""
        self.correct(tenant, -held, -working)
        self.requests -= 1
        tenant.requests -= 1
        if not tenant.requests:
            del self._tenants[tenant.name]

    def status(self) -> dict[str, Any]:
        return {
            "under_way": self.requests,
            "limit": self.requests_limit,
            "bytes": self.bytes,
            "bytes_limit": self.bytes_limit,
            "waiting": self.waiting,
        }
