"""Workspaces: `hive.workspaces`, folders as a whole, of which every snapshot is a version."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivemem.methods import suggesting
from hivemem.uploading import Progress
from hivemem_contracts.artifacts import operations
from hivemem_contracts.artifacts.models import WorkspaceVersion
from hivemem_contracts.artifacts.replies import WorkspaceDeleted, WorkspaceDifference
from hivemem_contracts.artifacts.workspace_files import WorkspaceEntry
from hivemem_contracts.limits import LIST_MAXIMUM
from hivemem_contracts.operations import AnyOperation

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem.workspaces.restores import Restored
    from hivemem.workspaces.snapshots import Snapshot

__all__ = ["Workspaces"]


class Workspaces:
    """Workspaces: folders as a whole, of which every snapshot is a version."""

    def __init__(self, hive: "Hive") -> None:
        self._hive = hive

    @suggesting
    async def snapshot(
        self,
        path: str | os.PathLike[str],
        *,
        workspace_id: str,
        agent_id: str | None = None,
        cycle: int | None = None,
        message: str | None = None,
        expect_version: int | None = None,
        ignore: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> "Snapshot":
        """Save a folder as the next version of a workspace. Only bytes that are not stored yet are sent.

        Files are kept with their permission bits, and symbolic links that stay in the folder as links. Empty folders
        are not kept. `skipped` of the result names what no version can hold. `.gitignore`, `.hivememignore` and the
        patterns of `ignore` say what is left out. Raises `RevisionConflict` if `expect_version` is not the newest
        version, and `InvalidRequest` if the folder or a file of it cannot be read.
        """
        from hivemem.workspaces.snapshots import CommitFields, take_snapshot

        fields = CommitFields(workspace_id, agent_id, cycle, message, expect_version)
        return await take_snapshot(self._hive, Path(path), fields, tuple(ignore), progress)

    @suggesting
    async def restore(
        self,
        workspace_id: str,
        path: str | os.PathLike[str],
        *,
        version: int | None = None,
        delete: bool = False,
        ignore: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> "Restored":
        """Restore a version, by default the newest one, into a folder.

        The folder changes only when all bytes have arrived and their hashes are right, and an error puts everything
        back. Files that the version does not have stay; `delete` removes them, but for ignored ones. Raises `NotFound`,
        and `InvalidRequest` if the list of files would lead out of the folder, or something else is in the place of a
        file.
        """
        from hivemem.workspaces.restores import restore_version

        return await restore_version(
            self._hive, workspace_id, Path(path), version, delete=delete, ignore=tuple(ignore), progress=progress
        )

    async def files(
        self, workspace_id: str, version: int | None = None, *, prefix: str | None = None
    ) -> Sequence[WorkspaceEntry]:
        """Return the files of a version, by default of the newest one, by path. Raises `NotFound`."""
        fields = {"workspace_id": workspace_id, "version": version, "prefix": prefix}
        return await _items(self._hive, operations.WORKSPACE_GET, fields)

    async def diff(self, workspace_id: str, start: int, end: int | None = None) -> Sequence[WorkspaceDifference]:
        """Return how the files differ between two versions, by path; up to the newest one without `end`. Raises
        `NotFound`."""
        if end is None:
            newest = await self._hive.artifacts.workspace_versions(workspace_id=workspace_id, limit=1)
            end = newest.items[0].version
        fields = {"workspace_id": workspace_id, "start": start, "end": end}
        return await _items(self._hive, operations.WORKSPACE_DIFF, fields)

    async def versions(self, workspace_id: str) -> Sequence[WorkspaceVersion]:
        """Return the versions of a workspace, newest first. Raises `NotFound`."""
        return await _items(self._hive, operations.WORKSPACE_VERSIONS, {"workspace_id": workspace_id})

    async def list(self) -> Sequence[WorkspaceVersion]:
        """Return the workspaces by id, each at its newest version."""
        return await _items(self._hive, operations.WORKSPACE_LIST, {})

    async def delete(self, workspace_id: str) -> WorkspaceDeleted:
        """Remove a workspace with all its versions. Raises `NotFound`."""
        return await self._hive.artifacts.workspace_delete(workspace_id=workspace_id)


async def _items(hive: "Hive", operation: AnyOperation, fields: dict[str, Any]) -> list[Any]:
    """Return the items of all pages."""
    given = {name: value for name, value in fields.items() if value is not None}
    items: list[Any] = []
    cursor: str | None = None
    while True:
        after = {} if cursor is None else {"cursor": cursor}
        page = await hive.send(operation, {**given, "limit": LIST_MAXIMUM, **after})
        items += page.items
        cursor = page.cursor
        if cursor is None:
            return items
