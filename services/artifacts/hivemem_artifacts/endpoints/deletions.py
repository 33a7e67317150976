"""Deletions of artifacts, by request or with their session. Each step can be resumed after a crash."""

from typing import Final

from hivemem_artifacts.decisions.deletions import begin_deletion, end_deletion, release_versions, running_deletion
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.deletions import DELETION, Deletion
from hivemem_artifacts.entities.places import place_of
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.replies import ArtifactDeleted
from hivemem_contracts.errors import RevisionConflict
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Decide, Ledger, Outcome, RequestId, Write
from hivemem_runtime.service import Call, Service

RELEASED_AT_ONCE: Final = 100


def bind(service: Service, deleter: "ArtifactDeleter") -> None:
    service.handler(operations.DELETE, deleter.delete)


class ArtifactDeleter:
    """Deletes artifacts with all their versions."""

    def __init__(self, ledger: Ledger, announcements: Announcements) -> None:
        self._ledger = ledger
        self._announcements = announcements

    async def delete(self, call: Call, body: requests.DeleteArtifact) -> ArtifactDeleted:
        tenant, agent, cause = call.sender.tenant, call.sender.agent, call.message_id
        place = place_of(body.session_id, body.name)
        outcome = await self._write(
            tenant,
            agent,
            place,
            lambda heads, now: begin_deletion(heads, place, agent, cause, now),
            request_id=call.request_id,
            cause=cause,
        )
        deletion: Deletion = outcome.record
        assert outcome.stamp is not None, "beginning a deletion appends"
        await self.finish(tenant, place, deletion)
        return ArtifactDeleted.model_construct(
            session_id=body.session_id,
            name=body.name,
            version=deletion.through + 1,
            deleted_at=time_from_microseconds(outcome.stamp.at),
            duplicate=outcome.duplicate,
        )

    async def delete_for(self, tenant: str, place: str, *, actor: str, cause: str, saved_until: int) -> None:
        """Delete an artifact because its session was deleted. Versions saved later keep it alive."""
        outcome = await self._write(
            tenant,
            actor,
            place,
            lambda heads, now: begin_deletion(heads, place, actor, cause, now, saved_until=saved_until),
            cause=cause,
        )
        if outcome.record is not None:
            await self.finish(tenant, place, outcome.record)

    async def finish(self, tenant: str, place: str, deletion: Deletion) -> None:
        """Carry out the remaining steps of a deletion."""
        actor, cause, through = deletion.actor, deletion.cause, deletion.through
        while True:
            running = await self._running(tenant, place, through)
            if running is None:
                return
            if running.released >= through:
                break
            await self._release(tenant, place, running)
        stamp = await self._erase(tenant, place, running)
        if stamp is not None:
            await self._announcements.flush_tombstone(stamp)
        await self._write(tenant, actor, place, lambda heads, now: end_deletion(heads, place, through), cause=cause)

    async def _release(self, tenant: str, place: str, deletion: Deletion) -> None:
        records = await self._ledger.history(
            ARTIFACT, tenant, place, after=deletion.released, before=deletion.through + 1, limit=RELEASED_AT_ONCE
        )
        assert records, "versions exist until they have released their bytes"
        await self._write(
            tenant,
            deletion.actor,
            place,
            lambda heads, now: release_versions(heads, place, deletion.through, records, now),
            cause=deletion.cause,
        )

    async def _running(self, tenant: str, place: str, through: int) -> Deletion | None:
        head = await self._ledger.head(DELETION, tenant, place)
        return running_deletion(head, through)

    async def _erase(self, tenant: str, place: str, deletion: Deletion) -> Stamp | None:
        """Erase an artifact, or return None if that is done. A late deletion must not erase a new artifact with the
        same name."""
        try:
            return await erase_announced(
                self._ledger,
                self._announcements,
                ARTIFACT,
                tenant,
                place,
                actor=deletion.actor,
                cause=deletion.cause,
                version=deletion.through,
            )
        except RevisionConflict:
            return None

    async def _write(
        self,
        tenant: str,
        actor: str,
        place: str,
        decide: Decide,
        *,
        cause: str,
        request_id: RequestId | None = None,
    ) -> Outcome:
        return await self._ledger.commit(
            Write(tenant, actor, DELETION, place, decide, request_id=request_id, cause=cause)
        )
