"""The operation `namespaces`. It seeks from one namespace to the next, so its work does not depend on how many memories
a namespace holds."""

from functools import partial
from typing import Final

from hivemem_contracts.identifiers import ends_with
from hivemem_contracts.memory import operations, requests
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import below, namespace_and_key, within
from hivemem_runtime.ledger.port import Covered, Ledger
from hivemem_runtime.paging import Bookmark, Lines
from hivemem_runtime.service import Call, Service

PLACES_AT_ONCE: Final = 100
"""The number of index entries in one read. Namespaces with few memories share a read."""
READS: Final = 100
"""The maximum number of reads for one answer."""
_NEXT: Final = "\x01"
"""The smallest character that follows a place. Places contain no smaller one."""


def bind(service: Service) -> None:
    service.handler(operations.NAMESPACES, partial(namespaces, service.ledger))


async def namespaces(ledger: Ledger, call: Call, body: requests.ListNamespaces) -> bytes:
    bookmark = Bookmark("namespaces", body.prefix, body.suffix, body.depth)
    start = bookmark.find(body.cursor, str)[0] if body.cursor else ""
    lines = Lines(body.limit)
    scan = NamespaceScan(ledger, call.sender.tenant, body, start)
    return lines.answer(bookmark.put(scan.reached) if await scan.fill(lines) else None)


class NamespaceScan:
    """Finds namespaces from a place on. `reached` is the first place that is not examined yet."""

    def __init__(self, ledger: Ledger, tenant: str, body: requests.ListNamespaces, reached: str) -> None:
        self.reached = reached
        self._ledger = ledger
        self._tenant = tenant
        bounds: tuple[str, str | None] = ("", None) if body.prefix is None else below(body.prefix)
        self._low, self._high = bounds
        self._suffix = body.suffix
        self._depth = body.depth
        self._now = now_microseconds()

    async def fill(self, lines: Lines) -> bool:
        """Add as many namespaces as fit, and return whether there may be more."""
        for _ in range(READS):
            low = max(self._low, self.reached) or None
            page = await self._ledger.covered(
                MEMORY, self._tenant, "live", equals={}, low=low, high=self._high, limit=PLACES_AT_ONCE
            )
            for entry in page.items:
                if entry.id >= self.reached and not self._take(entry, lines):
                    return True
            if page.cursor is None:
                return False
        return True

    def _take(self, entry: Covered, lines: Lines) -> bool:
        """Examine a memory, and return False if the answer has no room for its namespace."""
        expires_at = entry.values["expires_at"]
        if isinstance(expires_at, int) and expires_at <= self._now:
            self.reached = entry.id + _NEXT
            return True
        namespace, _ = namespace_and_key(entry.id)
        segments = namespace.split(":")
        if self._suffix is not None and not ends_with(self._suffix, namespace):
            self.reached = within(namespace)[1]
            return True
        if self._depth is not None and len(segments) >= self._depth:
            namespace = ":".join(segments[: self._depth])
            after = below(namespace)[1]
        else:
            after = within(namespace)[1]
        if not lines.add(namespace):
            return False
        self.reached = after
        return True
