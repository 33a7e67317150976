"""What people find: a folder a session, with a link to each file by its time and name, and the manifest."""

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from hivemem_artifacts.adapters.filesystem.errors import translated
from hivemem_artifacts.adapters.filesystem.folders import Folder, closing, write_all
from hivemem_artifacts.adapters.filesystem.layout import Layout, fresh_name
from hivemem_artifacts.adapters.names import MANIFEST, file_name, folder_name, is_file_name
from hivemem_artifacts.adapters.threads import Threads
from hivemem_artifacts.ports import NAMES_PER_CALL, ShownFile


class FileView:
    """Holds the folder of the session, by a lock, until it is finished or abandoned."""

    def __init__(self, layout: Layout, threads: Threads, tenant: str, folder: Folder) -> None:
        self._layout = layout
        self._threads = threads
        self._tenant = tenant
        self._folder: Folder | None = folder
        self._there = {entry.name for entry in folder.entries() if entry.is_file(follow_symlinks=False)}
        self._shown: dict[str, int] = {}
        self._draft = fresh_name("view")
        self._written = 0

    async def add(self, files: Sequence[ShownFile], manifest: bytes) -> None:
        await self._threads.run(self._add, files, manifest)

    async def finish(self) -> None:
        await self._threads.run(self._finish)

    async def abandon(self) -> None:
        await self._threads.run(self._abandon)

    def _add(self, files: Sequence[ShownFile], manifest: bytes) -> None:
        assert self._folder is not None, "the view is finished"
        assert len(files) <= NAMES_PER_CALL, "more files than one call takes"
        with translated():
            for file in files:
                self._show(file, self._folder)
            with self._layout.staging() as staging, closing(self._opened_draft(staging)) as draft:
                write_all(draft, manifest, self._written)
                self._written += len(manifest)

    def _show(self, file: ShownFile, folder: Folder) -> None:
        name = file_name(file.at, file.name)
        if self._shown.get(name, file.version) != file.version:  # two versions of the same microsecond
            name = file_name(file.at, file.name, file.version)
        if name in self._there or self._linked(file, folder, name):
            self._shown[name] = file.version

    def _linked(self, file: ShownFile, folder: Folder, name: str) -> bool:
        with suppress(FileNotFoundError), self._layout.shard(self._tenant, file.blob) as shard:
            status = shard.status(file.blob)
            if status is not None and stat.S_ISREG(status.st_mode):
                folder.remove(name)  # what is there is no plain file, so it is not ours
                shard.link(file.blob, folder, name)
                self._there.add(name)
                return True
        return False

    def _opened_draft(self, staging: Folder) -> int:
        if staging.status(self._draft) is None:
            return staging.create(self._draft)
        return staging.open(self._draft, os.O_WRONLY)

    def _finish(self) -> None:
        assert self._folder is not None, "the view is finished"
        with translated(), self._layout.staging() as staging:
            with closing(self._opened_draft(staging)) as draft:
                os.ftruncate(draft, self._written)
                os.fsync(draft)
            staging.rename(self._draft, self._folder, MANIFEST)
            for name in self._there:
                if is_file_name(name) and name not in self._shown:
                    self._folder.remove(name)
            self._folder.sync()
        self._let_go()

    def _abandon(self) -> None:
        if self._folder is not None:
            with suppress(OSError), self._layout.staging() as staging:
                staging.remove(self._draft)
            self._let_go()

    def _let_go(self) -> None:
        if self._folder is not None:
            self._folder.close()
            self._folder = None


def try_to_open(layout: Layout, threads: Threads, tenant: str, session_id: str) -> FileView | None:
    """The view, or None while somebody else holds it."""
    name = folder_name(session_id)
    with translated(), layout.sessions(tenant, make=True) as sessions:
        folder = sessions.folder(name, make=True)
        with ExitStack() as unless_open:
            unless_open.enter_context(folder)
            if not _taken(folder, sessions, name):
                return None
            view = FileView(layout, threads, tenant, folder)
            unless_open.pop_all()
        return view


def try_to_remove(layout: Layout, tenant: str, session_id: str) -> bool | None:
    """True once nothing is left to see, or None while somebody else holds the view."""
    name = folder_name(session_id)
    with (
        translated(),
        suppress(FileNotFoundError),
        layout.sessions(tenant) as sessions,
        sessions.folder(name) as folder,
    ):
        if not _taken(folder, sessions, name):
            return None
        for entry in folder.names():
            if entry == MANIFEST or is_file_name(entry):
                folder.remove(entry)
        if not folder.names():  # else people keep something of their own there
            sessions.remove(name)
            sessions.sync()
    return True


def _taken(folder: Folder, above: Folder, name: str) -> bool:
    """Take the folder, unless it is held, or was removed by the one who held it."""
    if not folder.lock():
        return False
    status = above.status(name)
    return status is not None and status.st_ino == os.fstat(folder.descriptor).st_ino
