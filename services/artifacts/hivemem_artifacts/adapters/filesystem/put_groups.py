"""Many small blobs written in one go, by one thread.

First all bytes are written, then all are made durable, then all get their names, and last these are made durable: the
journal of the file system has one commit for many of them, and what all need is opened once.
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
    """Bytes that are to be a blob."""

    tenant: str
    blob: str
    data: bytes


def put_group(layout: Layout, blobs: Sequence[SmallBlob]) -> dict[int, Exception]:
    """What went wrong, by the number of the blob; the others are durable."""
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
    """Those that a group needs, each opened once."""

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
        """Once all names are there. What went wrong is told to everyone: the kernel itself tells it once."""
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
    """A blob on its way, step by step."""

    def __init__(self, folders: _Folders, blob: SmallBlob) -> None:
        self._folders = folders
        self._blob = blob
        self._name = ""
        self._descriptor = -1

    def write(self) -> None:
        self._shard = self._folders.shard(self._blob.tenant, checked_blob(self._blob.blob))
        if is_blob(self._shard, self._blob.blob, len(self._blob.data)):
            return  # whoever stored it may still be about to make its name durable
        self._name = fresh_name("put")
        self._descriptor = self._folders.staging.create(self._name)
        write_all(self._descriptor, self._blob.data, 0)
        begin_writing(self._descriptor)

    def place(self) -> None:
        if self._name:
            os.fsync(self._descriptor)
            self._let_go()
            self._folders.staging.rename(self._name, self._shard, self._blob.blob)
            self._name = ""

    def finish(self) -> None:
        self._folders.sync(self._shard)

    def clear(self) -> None:
        """Nothing is left behind of what failed."""
        self._let_go()
        if self._name:
            with suppress(OSError):
                self._folders.staging.remove(self._name)

    def _let_go(self) -> None:
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
