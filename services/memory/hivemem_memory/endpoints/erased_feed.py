"""The feed as an erasure needs it: the services that follow erasures, and the changes to purge."""

import asyncio
from typing import Final

from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.memory.changes import ERASURES_FOLLOWED
from hivemem_contracts.memory.operations import NAME
from hivemem_memory.endpoints.audit_trail import REACTION as AUDIT
from hivemem_memory.entities.erasures import Erasure
from hivemem_memory.entities.memories import MEMORY, feed_subject
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed.purging import FeedPurger
from hivemem_runtime.bus.feed.reading import FeedReading
from hivemem_runtime.ledger.port import Ledger

ERASED: Final = "hivemem.memory.erased"
ANY_AGE: Final = 2**62
DUE: Final = 1_000
"""The number of unannounced keys that are looked at before a purge."""
RETRY_AFTER_MS: Final = 500


class ErasedFeed:
    """Its calls are `Unavailable` before `start`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._feed: FeedReading | None = None
        self._purger: FeedPurger | None = None

    def start(self, client: Client) -> None:
        self._feed, self._purger = FeedReading(client), FeedPurger(client)

    async def followers(self) -> set[str]:
        """Return the services that have to confirm erasures: their consumer of the feed exists, even if no worker of
        theirs runs just now."""
        feed, names = self._reading(), [contract.name for contract in SERVICES]
        follow = await asyncio.gather(*(feed.has_consumer(f"{name}-{ERASURES_FOLLOWED}") for name in names))
        return {name for name, follows in zip(names, follow, strict=True) if follows}

    async def purge(self, tenant: str, erasure: Erasure) -> int | None:
        """Purge the values of the erased memories from the feed, and return the number of changes; None if it is too
        early, because a tombstone is not announced, or the audit has not linked a change."""
        feed = self._reading()
        assert self._purger is not None, "it was started with the feed"
        due = await self._ledger.due(older_than=ANY_AGE, limit=DUE)
        if len(due) == DUE or any((one.entity, one.tenant, one.erased) == (MEMORY.name, tenant, True) for one in due):
            return None
        subjects = _subjects(tenant, erasure)
        linked = await feed.acknowledged(f"{NAME}-{AUDIT}")
        for subject in subjects:
            if await feed.next(subject, linked) is not None:
                return None
        return await self._purger.purge(subjects, ERASED)

    def _reading(self) -> FeedReading:
        if self._feed is None:
            raise Unavailable("this worker is starting", retry_after_ms=RETRY_AFTER_MS)
        return self._feed


def _subjects(tenant: str, erasure: Erasure) -> list[str]:
    """Return the subjects of the feed that the erased memories were announced on."""
    if erasure.key is not None:
        return [feed_subject(tenant, erasure.namespace, erasure.key)]
    return [feed_subject(tenant, namespace, None) for namespace in (erasure.namespace, *erasure.more)]
