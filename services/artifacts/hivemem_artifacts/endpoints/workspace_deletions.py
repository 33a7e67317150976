"""Deletions of workspaces. Each step can be resumed after a crash."""

from contextlib import suppress
from functools import partial
from typing import Final

from hivemem_artifacts.decisions.deletions import running_deletion
from hivemem_artifacts.decisions.workspaces import begin_workspace_deletion, end_workspace_deletion, release_version
from hivemem_artifacts.endpoints.workspace_listings import Listings
from hivemem_artifacts.entities.deletions import WORKSPACE_DELETION, Deletion
from hivemem_artifacts.entities.listings import LISTING
from hivemem_artifacts.entities.workspaces import WORKSPACE
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.replies import WorkspaceDeleted
from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.erasing import Announcements, erase_announced
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Decide, Ledger, Outcome, Reads, RequestId, Write
from hivemem_runtime.service import Call, Service

RELEASED_AT_ONCE: Final = 20
"""How many versions are read at once."""


def bind(service: Service, deleter: "WorkspaceDeleter") -> None:
    service.handler(operations.WORKSPACE_DELETE, deleter.delete)


class WorkspaceDeleter:
    """Deletes workspaces with all their versions."""

    def __init__(self, ledger: Ledger, announcements: Announcements, listings: Listings) -> None:
        self._ledger = ledger
        self._announcements = announcements
        self._listings = listings

    async def delete(self, call: Call, body: requests.DeleteWorkspace) -> WorkspaceDeleted:
        tenant, agent, cause, workspace_id = call.sender.tenant, call.sender.agent, call.message_id, body.workspace_id
        outcome = await self._write(
            tenant,
            agent,
            workspace_id,
            lambda heads, now: begin_workspace_deletion(heads, workspace_id, agent, cause, now),
            request_id=call.request_id,
            cause=cause,
        )
        deletion: Deletion = outcome.record
        assert outcome.stamp is not None, "beginning a deletion appends"
        await self.finish(tenant, workspace_id, deletion)
        return WorkspaceDeleted.model_construct(
            workspace_id=workspace_id,
            version=deletion.through + 1,
            deleted_at=time_from_microseconds(outcome.stamp.at),
            duplicate=outcome.duplicate,
        )

    async def finish(self, tenant: str, workspace_id: str, deletion: Deletion) -> None:
        """Carry out the remaining steps of a deletion."""
        actor, cause, through = deletion.actor, deletion.cause, deletion.through
        while True:
            running = await self._running(tenant, workspace_id, through)
            if running is None:
                return
            if running.released >= through:
                break
            await self._release(tenant, workspace_id, running)
        stamp = await self._erase(tenant, workspace_id, running)
        if stamp is not None:
            await self._announcements.flush_tombstone(stamp)
        await self._write(
            tenant,
            actor,
            workspace_id,
            lambda heads, now: end_workspace_deletion(heads, workspace_id, through),
            cause=cause,
        )

    async def _release(self, tenant: str, workspace_id: str, deletion: Deletion) -> None:
        """Release the listings of the next versions. After a crash, garbage collection releases the rest."""
        versions = await self._ledger.history(
            WORKSPACE,
            tenant,
            workspace_id,
            after=deletion.released,
            before=deletion.through + 1,
            limit=RELEASED_AT_ONCE,
        )
        assert versions, "versions exist until they have released their listings"
        for version in versions:
            await self._write(
                tenant,
                deletion.actor,
                workspace_id,
                partial(release_version, workspace_id, deletion.through, version),
                [(LISTING, listing) for listing, _ in version.value.listings],
                cause=deletion.cause,
            )
        for listing in {listing for version in versions for listing, _ in version.value.listings}:
            with suppress(NotFound):  # another worker has released it, and its blob was collected
                await self._listings.release(tenant, listing, actor=deletion.actor, cause=deletion.cause)

    async def _running(self, tenant: str, workspace_id: str, through: int) -> Deletion | None:
        return running_deletion(await self._ledger.head(WORKSPACE_DELETION, tenant, workspace_id), through)

    async def _erase(self, tenant: str, workspace_id: str, deletion: Deletion) -> Stamp | None:
        """Erase a workspace, or return None if that is done. A late deletion must not erase a new workspace with the
        same id."""
        try:
            return await erase_announced(
                self._ledger,
                self._announcements,
                WORKSPACE,
                tenant,
                workspace_id,
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
        workspace_id: str,
        decide: Decide,
        reads: Reads = (),
        *,
        cause: str,
        request_id: RequestId | None = None,
    ) -> Outcome:
        return await self._ledger.commit(
            Write(
                tenant, actor, WORKSPACE_DELETION, workspace_id, decide, request_id=request_id, cause=cause, reads=reads
            )
        )
