"""The worker's timer. It writes uses, finds due flushes, ends expired windows and removes deleted messages."""

import asyncio
from functools import partial
from typing import Final

from hivemem_contracts.errors import RevisionConflict
from hivemem_runtime.background import Timer, for_each_tenant
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import SYSTEM, Head, Ledger, system_write
from hivemem_windows.decisions.endings import expire_window, purged
from hivemem_windows.endpoints.flusher import Flusher
from hivemem_windows.endpoints.touches import Touches
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.messages import FLUSH, MESSAGE
from hivemem_windows.entities.windows import WINDOW

SECONDS: Final = 1.0
AT_ONCE: Final = 200
"""The windows of one kind and tenant in one round, and the messages that are removed side by side."""


class Upkeep(Timer):
    def __init__(self, ledger: Ledger, announcements: Announcements, flusher: Flusher, touches: Touches) -> None:
        steps = (touches.write_all, self.flush_all, self.expire_all, self.purge_all)
        super().__init__("windows-upkeep", steps, SECONDS)
        self._ledger, self._announcements = ledger, announcements
        self._flusher = flusher

    async def flush_all(self) -> None:
        await for_each_tenant(self._ledger, CONTENT, self.flush)

    async def expire_all(self) -> None:
        await for_each_tenant(self._ledger, CONTENT, self.expire)

    async def purge_all(self) -> None:
        await for_each_tenant(self._ledger, CONTENT, self.purge)

    async def flush(self, tenant: str) -> None:
        """Do due flushes, and flushes whose worker has ended."""
        due = now_microseconds() + 1
        page = await self._ledger.covered(CONTENT, tenant, "flush", equals={}, high=due, limit=AT_ONCE)
        for window in page.items:
            self._flusher.queue(tenant, window.id)

    async def expire(self, tenant: str) -> None:
        """End the windows whose time has come. Reads treat them as gone already."""
        due = now_microseconds() + 1
        page = await self._ledger.covered(CONTENT, tenant, "expiry", equals={}, high=due, limit=AT_ONCE)
        await asyncio.gather(*(self._expire(tenant, window.id) for window in page.items))

    async def _expire(self, tenant: str, id: str) -> None:
        await self._ledger.commit(
            system_write(tenant, WINDOW, id, lambda heads, now: expire_window(heads, id, now), ((CONTENT, id),))
        )

    async def purge(self, tenant: str) -> None:
        """Remove the messages of windows that were cleared or have ended, and then the ended windows."""
        page = await self._ledger.find(CONTENT, tenant, "purging", equals={}, limit=AT_ONCE)
        for head in page.items:
            if head.value is not None:
                await self._purge(tenant, head, head.value)

    async def _purge(self, tenant: str, head: Head[Content], content: Content) -> None:
        changes = await self._ledger.head(WINDOW, tenant, head.id)
        equals = {"window": head.id}
        messages = partial(
            self._ledger.covered, MESSAGE, tenant, "window", equals=equals, high=content.cleared_through + 1
        )
        async for found in pages(lambda cursor: messages(cursor=cursor, limit=AT_ONCE)):
            await asyncio.gather(*(self._erase(MESSAGE, tenant, each.id) for each in found))
        flushes = partial(self._ledger.covered, FLUSH, tenant, "window", equals=equals)
        async for found in pages(lambda cursor: flushes(cursor=cursor, limit=AT_ONCE)):
            await asyncio.gather(*(self._erase(FLUSH, tenant, each.id) for each in found))
        if not content.ended:
            await self._ledger.commit(
                system_write(
                    tenant, CONTENT, head.id, lambda heads, now: purged(heads, head.id, content.cleared_through)
                )
            )
        elif changes is not None:
            await self._erase_window(tenant, head.id, head.version, changes.version)

    async def _erase_window(self, tenant: str, id: str, content_version: int, version: int) -> None:
        """Erase an ended window, unless it was begun anew meanwhile."""
        try:
            changes = await self._ledger.head(WINDOW, tenant, id)
            if changes is not None and changes.value is not None:
                stamp = await erase_announced(
                    self._ledger, self._announcements, WINDOW, tenant, id, actor=SYSTEM, cause=None, version=version
                )
                if stamp is not None:
                    await self._announcements.flush_tombstone(stamp)
            await self._ledger.erase(CONTENT, tenant, id, actor=SYSTEM, cause=None, version=content_version)
        except RevisionConflict:
            return

    async def _erase(self, entity: AnyEntity, tenant: str, id: str) -> None:
        await self._ledger.erase(entity, tenant, id, actor=SYSTEM, cause=None)
