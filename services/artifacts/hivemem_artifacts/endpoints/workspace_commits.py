"""The operation `workspace_commit`: listings are made present first, then one commit refers to them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from pydantic import TypeAdapter, ValidationError

from hivemem_artifacts.decisions.workspaces import CommitOvertaken, commit_version, require_version
from hivemem_artifacts.endpoints.workspace_listings import ListedFile, ListingDraft, Listings, drafts_of
from hivemem_artifacts.endpoints.workspace_reads import workspace_model
from hivemem_artifacts.entities.blobs import BLOB, blob_name
from hivemem_artifacts.entities.listings import LISTING
from hivemem_artifacts.entities.workspaces import (
    WORKSPACE,
    WorkspaceRecord,
    evolve_workspace,
    require_announceable_workspace,
)
from hivemem_artifacts.ports import PIECE_BYTES, BlobStore
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.models import WorkspaceVersion
from hivemem_contracts.artifacts.workspace_files import WorkspaceFile, check_files
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.limits import WORKSPACE_LIST_BYTES
from hivemem_contracts.model import invalid_request
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of
from hivemem_runtime.service import Call, Service, earlier_outcome

_TRIES: Final = 20
_FILES: Final = TypeAdapter(list[WorkspaceFile])


def bind(service: Service, commits: "WorkspaceCommits") -> None:
    service.handler(operations.WORKSPACE_COMMIT, commits.commit)


class WorkspaceCommits:
    """Commits versions of workspaces."""

    def __init__(self, ledger: Ledger, store: BlobStore, listings: Listings) -> None:
        self._ledger = ledger
        self._store = store
        self._listings = listings
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}

    async def commit(self, call: Call, body: requests.CommitWorkspace) -> WorkspaceVersion:
        tenant, workspace_id = call.sender.tenant, body.workspace_id
        earlier = await earlier_outcome(self._ledger, call, WORKSPACE, workspace_id)
        if earlier is not None:
            return _answer(workspace_id, earlier)
        require_announceable_workspace(tenant, workspace_id)
        newest = await self._ledger.head(WORKSPACE, tenant, workspace_id)
        require_version(workspace_id, newest, body.expect_version)
        files = body.files
        if files is None:
            data = await self._uploaded_list(tenant, body.list_sha256 or "")
            files = await asyncio.to_thread(_parsed, data)
        drafts = await asyncio.to_thread(_checked_drafts, files)
        field = "files" if body.list_sha256 is None else "list_sha256"
        for _ in range(_TRIES):
            await self._listings.make(tenant, call.sender.agent, drafts, field)
            with suppress(CommitOvertaken):
                async with self._turn(tenant, workspace_id):
                    return _answer(workspace_id, await self._commit_drafts(call, body, drafts))
        raise Unavailable("other versions were committed again and again", retry_after_ms=200)

    @asynccontextmanager
    async def _turn(self, tenant: str, workspace_id: str) -> AsyncGenerator[None]:
        """Let the commits of a workspace on this worker take turns, so that none is overtaken by all others."""
        key = (tenant, workspace_id)
        lock = self._turns.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._turns.pop(key, None)

    async def _commit_drafts(
        self, call: Call, body: requests.CommitWorkspace, drafts: Sequence[ListingDraft]
    ) -> Outcome:
        tenant, workspace_id = call.sender.tenant, body.workspace_id
        base = value_of(await self._ledger.head(WORKSPACE, tenant, workspace_id))
        before, new = await self._listings.differing(tenant, base, [draft.sha256 for draft in drafts])
        wanted = set(new)
        after = {file.path: file for draft in drafts if draft.sha256 in wanted for file in draft.files}
        files = [file for draft in drafts for file in draft.files]
        record = WorkspaceRecord(
            [[draft.sha256, draft.files[-1].path] for draft in drafts],
            len(files),
            sum(file.size for file in files),
            len(after.keys() - before.keys()),
            _changed(before, after),
            len(before.keys() - after.keys()),
            body.agent_id,
            body.cycle,
            body.message,
        )
        version = 0 if base is None else base.version
        expected = body.expect_version
        return await self._ledger.commit(
            call.write(
                WORKSPACE,
                workspace_id,
                lambda heads, now: commit_version(heads, workspace_id, record, version, expected, now),
                [(LISTING, draft.sha256) for draft in drafts],
            )
        )

    async def _uploaded_list(self, tenant: str, sha256: str) -> bytes:
        blob = value_of(await self._ledger.head(BLOB, tenant, sha256))
        if blob is None or not blob.usable:
            raise InvalidRequest(
                f"list_sha256: these bytes are not uploaded, got {sha256!r}", field="list_sha256", missing=[sha256]
            )
        check_size("list_sha256", blob.size, WORKSPACE_LIST_BYTES)
        name = blob_name(sha256, blob.life)
        pieces = [
            await self._store.read(tenant, name, offset, PIECE_BYTES) for offset in range(0, blob.size, PIECE_BYTES)
        ]
        return b"".join(pieces)


def _changed(before: dict[str, ListedFile], after: dict[str, ListedFile]) -> int:
    return sum(before[path] != after[path] for path in before.keys() & after.keys())


def _parsed(data: bytes) -> list[WorkspaceFile]:
    try:
        return _FILES.validate_json(data, strict=True)
    except ValidationError as error:
        refused = invalid_request(error)
        raise InvalidRequest(f"list_sha256: {refused.detail}", **{**refused.context, "field": "list_sha256"}) from error


def _checked_drafts(files: Sequence[WorkspaceFile]) -> list[ListingDraft]:
    check_files(files)
    return drafts_of(files)


def _answer(workspace_id: str, outcome: Outcome) -> WorkspaceVersion:
    assert outcome.stamp is not None, "a commit appends"
    return workspace_model(workspace_id, evolve_workspace(None, outcome.record, outcome.stamp))
