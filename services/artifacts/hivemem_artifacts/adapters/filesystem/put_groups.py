"""Group writes of small blobs, in one thread.

Each step runs for all blobs before the next: write the bytes, sync the files, rename them, sync the folders. The file
system's journal then needs one commit for many blobs, and each folder is opened once.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from hivemem_artifacts.adapters.filesystem.errors import translated
from hivemem_artifacts.adapters.filesystem.folders import Folder, begin_writing, write_all
from hivemem_artifacts.adapters.filesystem.layout import Layout, fresh_name, is_blob, shard_name
from hivemem_artifacts.adapters.names import checked_blob, tenant_name
from hivemem_contracts.errors import HiveError


class SmallBlob(NamedTuple):
    """The bytes and the name of a blob to write."""

    tenant: str
    blob: str
    data: bytes


def put_group(layout: Layout, blobs: Sequence[SmallBlob]) -> dict[int, Exception]:
    """Write blobs, and return the errors by blob number. All other blobs are durable."""
    failed: dict[int, Exception] = {}
    with ExitStack() as opened, translated():
        folders = _Folders(layout, opened)
        drafts = [_Draft(folders, blob) for blob in blobs]
        for draft in drafts:
            opened.callback(draft.clear)
        for step in (_Draft.write, _Draft.place, _Draft.finish):
            _each(drafts, step, failed)
    return failed


class _Folders:
    """The folders of a group write, each opened once."""

    def __init__(self, layout: Layout, opened: ExitStack) -> None:
        self._opened = opened
        self._blobs = opened.enter_context(layout.tenants())
        self.staging = opened.enter_context(layout.staging())
        self._below: dict[tuple[str, ...], Folder] = {}
        self._synced: dict[Folder, OSError | None] = {}

    def shard(self, tenant: str, blob: str) -> Folder:
        token = tenant_name(tenant)
        return self._folder(self._folder(self._blobs, token), token, shard_name(blob))

    def _folder(self, above: Folder, *names: str) -> Folder:
        folder = self._below.get(names)
        if folder is None:
            folder = self._below[names] = self._opened.enter_context(above.folder(names[-1], make=True))
        return folder

    def sync(self, folder: Folder) -> None:
        """Sync a folder once, after all renames. A failure is raised for every blob, because the kernel reports it
        only once."""
        if folder not in self._synced:
            try:
                folder.sync()
            except OSError as error:
                self._synced[folder] = error
            else:
                self._synced[folder] = None
        if (failure := self._synced[folder]) is not None:
            raise failure


class _Draft:
    """One blob of a group write, with a method per step."""

    def __init__(self, folders: _Folders, blob: SmallBlob) -> None:
        self._folders = folders
        self._blob = blob
        self._name = ""
        self._descriptor = -1

    def write(self) -> None:
        self._shard = self._folders.shard(self._blob.tenant, checked_blob(self._blob.blob))
        if is_blob(self._shard, self._blob.blob, len(self._blob.data)):
            return  # another writer of the blob may not have synced its name yet
        self._name = fresh_name("put")
        self._descriptor = self._folders.staging.create(self._name)
        write_all(self._descriptor, self._blob.data, 0)
        begin_writing(self._descriptor)

    def place(self) -> None:
        if self._name:
            os.fsync(self._descriptor)
            self._close()
            self._folders.staging.rename(self._name, self._shard, self._blob.blob)
            self._name = ""

    def finish(self) -> None:
        self._folders.sync(self._shard)

    def clear(self) -> None:
        """Remove the staged file of a failed write."""
        self._close()
        if self._name:
            with suppress(OSError):
                self._folders.staging.remove(self._name)

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def _each(drafts: Sequence[_Draft], step: Callable[[_Draft], None], failed: dict[int, Exception]) -> None:
    for number, draft in enumerate(drafts):
        if number not in failed:
            try:
                with translated():
                    step(draft)
            except HiveError as error:
                failed[number] = error
