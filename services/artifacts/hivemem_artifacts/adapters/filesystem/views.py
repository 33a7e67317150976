"""Views on the file system: a folder per session, with a link to every version of every file, and the manifest."""

import os
import stat
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress

import orjson

from hivemem_artifacts.adapters.filesystem.errors import translated
from hivemem_artifacts.adapters.filesystem.folders import Folder, closing, write_all
from hivemem_artifacts.adapters.filesystem.layout import Layout, fresh_name
from hivemem_artifacts.adapters.names import MANIFEST, file_name, folder_name, is_file_name, link_tail, link_tails
from hivemem_artifacts.adapters.threads import Threads
from hivemem_artifacts.ports import NAMES_PER_CALL, ShownFile


class FileView:
    """The view of one session. It holds the lock of the session's folder until it is finished or abandoned."""

    def __init__(self, layout: Layout, threads: Threads, tenant: str, folder: Folder) -> None:
        self._layout = layout
        self._threads = threads
        self._tenant = tenant
        self._folder: Folder | None = folder
        self._links = {entry.name for entry in folder.entries() if entry.is_file(follow_symlinks=False)}
        self._link_counts = Counter(map(link_tail, self._links))
        self._published = _published_versions(folder)
        self._kept: set[str | None] = set()
        """The tails of kept links."""
        self._shown: dict[str, int] = {}
        self._draft = fresh_name("view")
        self._written = 0

    def keep(self, name: str, version: int, links: int) -> bool:
        tails = link_tails(name)
        if self._published.get(name) != version or sum(self._link_counts[tail] for tail in tails) != links:
            return False
        self._kept.update(tails)
        return True

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
        if self._shown.get(name, file.version) != file.version:  # two versions with the same microsecond
            name = file_name(file.at, file.name, file.version)
        if name in self._links or self._linked(file, folder, name):
            self._shown[name] = file.version

    def _linked(self, file: ShownFile, folder: Folder, name: str) -> bool:
        with suppress(FileNotFoundError), self._layout.shard(self._tenant, file.blob) as shard:
            status = shard.status(file.blob)
            if status is not None and stat.S_ISREG(status.st_mode):
                folder.remove(name)  # it is not a plain file, so it is not a link of ours
                shard.link(file.blob, folder, name)
                self._links.add(name)
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
            # The manifest first: after a crash it names only files that have links. The next state removes other links.
            staging.rename(self._draft, self._folder, MANIFEST)
            for name in self._links:
                if is_file_name(name) and name not in self._shown and link_tail(name) not in self._kept:
                    self._folder.remove(name)
            self._folder.sync()
        self._release()

    def _abandon(self) -> None:
        if self._folder is not None:
            with suppress(OSError), self._layout.staging() as staging:
                staging.remove(self._draft)
            self._release()

    def _release(self) -> None:
        if self._folder is not None:
            self._folder.close()
            self._folder = None


def _published_versions(folder: Folder) -> dict[str, int]:
    """Return the newest version of each file in the manifest, or nothing if it is missing or was edited by hand.

    The manifest has one line per file, so it is read by line: it may be larger than what fits in memory.
    """
    versions: dict[str, int] = {}
    try:
        with closing(folder.open(MANIFEST)) as descriptor, open(descriptor, "rb", closefd=False) as lines:
            for line in lines:
                if (entry := line.strip()).startswith(b'{"name"'):
                    item = orjson.loads(entry.removesuffix(b","))
                    versions[item["name"]] = item["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return versions


def try_to_open(layout: Layout, threads: Threads, tenant: str, session_id: str) -> FileView | None:
    """Open the view, or return None while another holder has it."""
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
    """Remove the view and return True, or return None while another holder has it."""
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
        if not folder.names():  # otherwise the folder holds files that people put there
            sessions.remove(name)
            sessions.sync()
    return True


def _taken(folder: Folder, above: Folder, name: str) -> bool:
    """Lock the folder. Returns False if it is locked, or its previous holder removed it."""
    if not folder.lock():
        return False
    status = above.status(name)
    return status is not None and status.st_ino == os.fstat(folder.descriptor).st_ino
