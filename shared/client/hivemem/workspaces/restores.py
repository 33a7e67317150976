"""Restores a version: all bytes arrive beside the files first, and then change places with them."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import pydantic

from hivemem.threads import to_the_end
from hivemem.uploading import Progress
from hivemem.workspaces.reading import BlobReader
from hivemem.workspaces.sandbox import Sandbox, opened_root, pieces_of
from hivemem.workspaces.staging import Staging, abandoned, put_back
from hivemem.workspaces.threads import stoppable
from hivemem.workspaces.trees import list_tree
from hivemem_contracts.artifacts.operations import WORKSPACE_GET
from hivemem_contracts.artifacts.replies import WorkspacePage
from hivemem_contracts.artifacts.workspace_files import RESTORE_PREFIX, WorkspaceFile, check_files
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.limits import LIST_MAXIMUM, WORKSPACE_FILES
from hivemem_contracts.model import invalid_request
from hivemem_contracts.sizes import check_size

if TYPE_CHECKING:
    from hivemem.hive import Hive

NAME_CHARACTERS: Final = 100
"""How much of a folder's name is in the name of the folder beside it, in which it is built."""

_ALL_MODE_BITS: Final = 0o7777


@dataclass(frozen=True, slots=True)
class Restored:
    """A version that was restored."""

    workspace_id: str
    version: int
    files: int
    bytes: int
    written: int
    """Number of files that were not in the folder before, or differed."""
    removed: int
    downloaded_bytes: int


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """The files of a version, all checked, and a page that says where their bytes are."""

    page: WorkspacePage
    files: Sequence[WorkspaceFile]


async def restore_version(
    hive: "Hive",
    workspace_id: str,
    path: Path,
    version: int | None,
    *,
    delete: bool,
    ignore: Sequence[str],
    progress: Progress | None,
) -> Restored:
    listed = await list_version(hive, workspace_id, version)
    restoring = Restoring(hive, listed, ignore if delete else None, progress)
    root = await asyncio.to_thread(path.absolute)
    if await asyncio.to_thread(os.path.lexists, root):
        return await restoring.into(root)
    beside = root.with_name(f"{RESTORE_PREFIX}{root.name[:NAME_CHARACTERS]}-{new_id()}")
    try:
        await to_the_end(_make_beside, root, beside)
        done = await restoring.into(beside)
        await to_the_end(_put_in_place, beside, root)
    except BaseException:
        await to_the_end(partial(shutil.rmtree, beside, ignore_errors=True))
        raise
    return done


async def list_version(hive: "Hive", workspace_id: str, version: int | None) -> ListedVersion:
    """Return the files of a version. Raises `InvalidRequest` if no folder can hold them: nothing that a worker answers
    is trusted with a path."""
    files: list[WorkspaceFile] = []
    fields: dict[str, Any] = {"workspace_id": workspace_id, "limit": LIST_MAXIMUM}
    if version is not None:
        fields["version"] = version
    while True:
        page = await hive.send(WORKSPACE_GET, fields)
        files += await to_the_end(_checked, page)
        check_size("files", len(files), WORKSPACE_FILES)
        if page.cursor is None:
            break
        fields["cursor"] = page.cursor
    await to_the_end(check_files, files)
    return ListedVersion(page, files)


def _checked(page: WorkspacePage) -> list[WorkspaceFile]:
    try:
        return [WorkspaceFile.model_validate(entry.model_dump(), strict=True) for entry in page.items]
    except pydantic.ValidationError as error:
        raise invalid_request(error) from error


def _make_beside(root: Path, beside: Path) -> None:
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        start = f"{RESTORE_PREFIX}{root.name[:NAME_CHARACTERS]}-"
        for left in root.parent.iterdir():
            if left.name.startswith(start) and len(left.name) == len(beside.name):
                _remove_abandoned(left)
        beside.mkdir()
    except OSError as error:
        raise _failed(root, error) from error


def _remove_abandoned(left: Path) -> None:
    """Remove a folder that a killed restore left beside its target."""
    with suppress(InvalidRequest), opened_root(left) as descriptor:
        if _locked(descriptor):
            shutil.rmtree(left, ignore_errors=True)


def _put_in_place(beside: Path, root: Path) -> None:
    try:
        beside.rename(root)
    except OSError as error:
        raise _failed(root, error) from error


def _failed(path: Path, error: OSError) -> InvalidRequest:
    return InvalidRequest(f"path: {os.strerror(error.errno or 0)}, got {str(path)!r}", field="path")


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Restoring:
    """A restore of one version. With the patterns of `spare`, other files are removed, but for ignored ones."""

    def __init__(
        self, hive: "Hive", listed: ListedVersion, spare: Sequence[str] | None, progress: Progress | None
    ) -> None:
        self._listed = listed
        self._spare = spare
        self._reader = BlobReader(hive, listed.page, progress)

    async def into(self, root: Path) -> Restored:
        """Restore into a folder that exists. Other processes cannot do so at the same time."""
        with opened_root(root) as descriptor:
            if not _locked(descriptor):
                raise Unavailable(f"another restore into {str(root)!r} is under way", retry_after_ms=1_000)
            for name in await to_the_end(abandoned, descriptor):
                await to_the_end(put_back, descriptor, name)
            wanted = await stoppable(partial(self._differing, descriptor))
            extra = [] if self._spare is None else await stoppable(partial(self._extra, descriptor, self._spare))
            if wanted or extra:
                staging = await to_the_end(Staging, descriptor)
                try:
                    await staging.fill(wanted, self._reader)
                    await stoppable(partial(staging.exchange, extra))
                finally:
                    await to_the_end(staging.remove)
        workspace = self._listed.page.workspace
        return Restored(
            workspace.workspace_id,
            workspace.version,
            workspace.files,
            workspace.bytes,
            len(wanted),
            len(extra),
            self._reader.done,
        )

    def _differing(self, root: int, stop: Event) -> list[WorkspaceFile]:
        """Return the files of the version that are missing in the folder, or differ."""
        sandbox = Sandbox(root)
        try:
            return [file for file in self._listed.files if not stop.is_set() and not _is_there(sandbox, file)]
        finally:
            sandbox.leave()

    def _extra(self, root: int, spare: Sequence[str], stop: Event) -> list[str]:
        """Return the files of the folder that the version does not have."""
        known = {file.path for file in self._listed.files}
        return [file.path for file in list_tree(root, spare, stop).files if file.path not in known]


def _is_there(sandbox: Sandbox, file: WorkspaceFile) -> bool:
    try:
        folder, name = sandbox.parent(file.path)
        if file.target is not None:
            return os.readlink(name, dir_fd=folder) == file.target
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if (status.st_size, status.st_mode & _ALL_MODE_BITS) != (file.size, file.mode):
            return False
        digest = sha256()
        for piece in pieces_of(folder, name):
            digest.update(piece)
        return digest.hexdigest() == file.sha256
    except OSError:
        return False
