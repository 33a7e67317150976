"""The reaction to a deleted session: its artifacts are deleted and its uploads aborted."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.decisions.uploads import abort_upload
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.places import within
from hivemem_artifacts.entities.uploads import UPLOAD
from hivemem_contracts.changes import Change
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_runtime.bus.reactions.runner import ReceivedChange
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger, system_write

AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Deletes the artifacts of a deleted session, as the actor of its deletion. Later artifacts belong to a new
    session with the same id."""

    ledger: Ledger
    deleter: ArtifactDeleter
    open_uploads: OpenUploads

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
                with suppress(NotFound):  # another worker has deleted it
                    await self.deleter.delete_for(
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
        kept_until = self.open_uploads.deadline()
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
        await self.open_uploads.discard(upload_id)
