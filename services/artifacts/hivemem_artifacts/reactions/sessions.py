"""What becomes of a session's files when the session is deleted."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.decisions.uploading import abort_upload
from hivemem_artifacts.endpoints.chunks import Holding
from hivemem_artifacts.endpoints.deleting import Deleting
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.places import within
from hivemem_artifacts.entities.uploads import UPLOAD
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.changes import Change
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_runtime.bus.reacting import ReceivedChange
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger, system_write

AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Deletes what a deleted session had, in the name of who deleted it. What came later belongs to who came later."""

    ledger: Ledger
    store: BlobStore
    deleting: Deleting
    holding: Holding

    async def follow(self, changes: Sequence[ReceivedChange]) -> None:
        for received in changes:
            if received.change.operation == "deleted":
                await self._delete(received.change)

    async def _delete(self, change: Change) -> None:
        until = microseconds_from_time(change.at)
        await self._abort_uploads(change, until)
        low, high = within(change.namespace)
        cause = change.cause or f"session:{change.namespace}:{change.version}"
        async for heads in pages(
            lambda cursor: self.ledger.find(
                ARTIFACT, change.tenant, "place", equals={}, low=low, high=high, cursor=cursor, limit=AT_ONCE
            )
        ):
            for head in heads:
                with suppress(NotFound):  # somebody else has deleted it meanwhile
                    await self.deleting.delete_for(
                        change.tenant, head.id, actor=change.actor, cause=cause, saved_until=until
                    )

    async def _abort_uploads(self, change: Change, until: int) -> None:
        of_session = {"session_id": change.namespace}
        async for heads in pages(
            lambda cursor: self.ledger.find(
                UPLOAD, change.tenant, "session", equals=of_session, cursor=cursor, limit=AT_ONCE
            )
        ):
            for head in heads:
                if head.value is not None and head.value.begun_at <= until:
                    await self._abort_upload(change, head.id)

    async def _abort_upload(self, change: Change, upload_id: str) -> None:
        kept_until = self.holding.deadline()
        await self.ledger.commit(
            system_write(
                change.tenant,
                UPLOAD,
                upload_id,
                lambda heads, now: abort_upload(heads, upload_id, now, kept_until=kept_until),
                actor=change.actor,
                cause=change.cause,
            )
        )
        await self.holding.let_go(upload_id)
        await self.store.discard(upload_id)
