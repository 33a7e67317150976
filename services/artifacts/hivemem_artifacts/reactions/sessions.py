"""The reaction to a deleted session: its artifacts are deleted and its uploads aborted."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hivemem_artifacts.decisions.uploads import abort_upload
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.kept_values import KeptValues
from hivemem_artifacts.entities.places import is_value, within
from hivemem_artifacts.entities.uploads import UPLOAD
from hivemem_artifacts.reactions.kept_values import ForkedValues
from hivemem_contracts.changes import Change
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_runtime.bus.reactions.runner import ReceivedChange
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger, system_write

AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Deletes the artifacts of a deleted session, as the actor of its deletion. Large values that a fork shares stay
    until the last such fork is deleted. Later artifacts belong to a new session with the same id."""

    ledger: Ledger
    deleter: ArtifactDeleter
    open_uploads: OpenUploads
    forked_values: ForkedValues

    async def follow(self, changes: Sequence[ReceivedChange]) -> None:
        deletions = [received.change for received in changes if received.change.operation == "deleted"]
        for change in deletions:
            await self._delete(change)
        for tenant in dict.fromkeys(change.tenant for change in deletions):
            await self.forked_values.release(tenant)

    async def _delete(self, change: Change) -> None:
        until = microseconds_from_time(change.at)
        await self._abort_uploads(change, until)
        cause = change.cause or f"session:{change.namespace}:{change.version}"
        shared: bool | None = None
        low, high = within(change.namespace)
        async for heads in pages(
            lambda cursor: self.ledger.find(
                ARTIFACT, change.tenant, "place", equals={}, low=low, high=high, cursor=cursor, limit=AT_ONCE
            )
        ):
            for head in heads:
                if is_value(head.id):
                    if shared is None:
                        shared = await self._keep(change, KeptValues(until, change.actor, cause))
                    if shared:
                        continue
                with suppress(NotFound):  # another worker has deleted it
                    await self.deleter.delete_for(
                        change.tenant, head.id, actor=change.actor, cause=cause, saved_until=until
                    )

    async def _keep(self, change: Change, values: KeptValues) -> bool:
        """Keep the large values of the session if a fork shares them, and return whether one does."""
        shared = await self.forked_values.is_shared(change.tenant, change.namespace)
        if shared:
            await self.forked_values.keep(change.tenant, change.namespace, values)
        return shared

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
