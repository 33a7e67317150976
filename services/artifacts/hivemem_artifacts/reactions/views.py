"""The views of sessions, updated from the ledger after a change.

The ledger decides which files a view shows, not the change, so missed, repeated or interrupted updates come out right.
Files that the published view shows already are kept without reading their versions.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

import orjson

from hivemem_artifacts.endpoints.artifact_lists import manifest_entry
from hivemem_artifacts.endpoints.reads import version_of
from hivemem_artifacts.entities.artifacts import ARTIFACT, ArtifactHead
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_artifacts.entities.places import session_and_name, within
from hivemem_artifacts.ports import NAMES_PER_CALL, BlobStore, ShownFile, View
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Head, Ledger

HEADS_AT_ONCE: Final = 200
VERSIONS_AT_ONCE: Final = 200
SESSIONS_AT_ONCE: Final = 4
RECENT_SECONDS: Final = 120
_SEPARATOR: Final = b",\n    "


class SessionViews:
    """Keeps the views in step with the ledger."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        self._ledger = ledger
        self._store = store

    async def show(self, sessions: Iterable[tuple[str, str]]) -> None:
        """Update the views of sessions, given by tenant and id. Raises the first error after all are done."""
        turns = asyncio.Semaphore(SESSIONS_AT_ONCE)

        async def one(tenant: str, session_id: str) -> None:
            async with turns:
                await self.show_session(tenant, session_id)

        outcomes = await asyncio.gather(*(one(*session) for session in dict.fromkeys(sessions)), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def show_recent(self) -> None:
        """Update the views of sessions that changed recently. A killed worker may have been about to, and the feed
        redelivers its changes only after a while."""
        since = now_microseconds() - RECENT_SECONDS * 1_000_000
        for entity in (ARTIFACT, DELETION):
            for tenant in await self._ledger.tenants(entity):
                await self.show([session async for session in self._touched(entity, tenant, since)])

    async def _touched(self, entity: AnyEntity, tenant: str, since: int) -> AsyncIterator[tuple[str, str]]:
        async for heads in pages(
            lambda cursor: self._ledger.find(
                entity, tenant, "recent", equals={}, low=since, cursor=cursor, limit=HEADS_AT_ONCE
            )
        ):
            for head in heads:
                yield tenant, session_and_name(head.id)[0]

    async def show_session(self, tenant: str, session_id: str) -> None:
        while True:
            if await self._anything(tenant, session_id):
                await self._build(tenant, session_id)
                return
            await self._store.remove_view(tenant, session_id)
            # Another task may have shown a file saved in the meantime, just before this call removed the view.
            if not await self._anything(tenant, session_id):
                return

    async def _anything(self, tenant: str, session_id: str) -> bool:
        low, high = within(session_id)
        page = await self._ledger.find(ARTIFACT, tenant, "place", equals={}, low=low, high=high, limit=1)
        return bool(page.items)

    async def _build(self, tenant: str, session_id: str) -> None:
        view = await self._store.open_view(tenant, session_id)
        try:
            head = {"tenant": tenant, "session_id": session_id}
            opening = orjson.dumps(head)[:-1] + b',\n  "items": [\n    '
            first = True
            async for heads in self._pages(tenant, session_id):
                if not heads:
                    continue
                entries = [manifest_entry(tenant, found.id, value) for found in heads if (value := found.value)]
                text = _SEPARATOR.join(entry.model_dump_json().encode() for entry in entries)
                await self._add(view, tenant, heads, opening + text if first else _SEPARATOR + text)
                first = False
            await view.add((), opening + b"]}\n" if first else b"\n  ]\n}\n")
            await view.finish()
        finally:
            await view.abandon()

    def _pages(self, tenant: str, session_id: str) -> AsyncIterator[list[Head[ArtifactHead]]]:
        low, high = within(session_id)
        return pages(
            lambda cursor: self._ledger.find(
                ARTIFACT, tenant, "place", equals={}, low=low, high=high, cursor=cursor, limit=HEADS_AT_ONCE
            )
        )

    async def _add(self, view: View, tenant: str, heads: list[Head[ArtifactHead]], manifest: bytes) -> None:
        files: list[ShownFile] = []
        for head in heads:
            async for file in self._changed_files(view, tenant, head):
                files.append(file)
                if len(files) == NAMES_PER_CALL:
                    await view.add(files, b"")
                    files = []
        await view.add(files, manifest)

    async def _changed_files(self, view: View, tenant: str, head: Head[ArtifactHead]) -> AsyncIterator[ShownFile]:
        """Yield every version of an artifact, the newest first, unless the view keeps its links."""
        value = head.value
        if value is None:
            return
        name = session_and_name(head.id)[1]
        if view.keep(name, value.version, value.version - value.first_version + 1):
            return
        yield ShownFile(name, value.version, value.created_at, value.blob)
        before = value.version
        while before > value.first_version:
            records = await self._ledger.history(
                ARTIFACT,
                tenant,
                head.id,
                after=value.first_version - 1,
                before=before,
                limit=VERSIONS_AT_ONCE,
                reverse=True,
            )
            if not records:
                return
            for record in records:
                version = version_of(record.value, record.stamp)
                yield ShownFile(name, version.version, version.created_at, version.blob)
            before = records[-1].stamp.version
