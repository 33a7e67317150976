"""Takeover of a staged upload, which excludes all earlier holders.

A staged file's name states how many of its bytes are durable. Bytes past them may be zeros after a power loss and are
not trusted. Each file has a lock. A takeover first renames the file, so that the earlier holder cannot mark more bytes
as durable. If the earlier holder is still alive, the file is copied, so that its late writes stay invisible.
"""

import os
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple

from hivemem_artifacts.adapters.digests import Digest, sha256
from hivemem_artifacts.adapters.filesystem.errors import translated, unavailable
from hivemem_artifacts.adapters.filesystem.folders import Folder, locked, read_all, write_all
from hivemem_artifacts.adapters.filesystem.layout import Layout, fresh_name

_READ_BYTES: Final = 1024 * 1024
_ATTEMPTS: Final = 10
_NO_FILE: Final = -1
_TOO_FAST: Final = "the upload is too active on another worker to be taken over"


class StagedFile(NamedTuple):
    """A staged file of an upload."""

    name: str
    durable: int

    @property
    def file(self) -> str:
        return f"{self.name}.{self.durable}"


class HeldFile(NamedTuple):
    """An open file that only this holder can change, with the hash of its durable bytes."""

    descriptor: int
    staged: StagedFile
    hash: Digest


def take_over(layout: Layout, upload_id: str) -> HeldFile:
    """Take over a staged upload. This blocks while the staged bytes are read or copied."""
    with translated(), layout.upload(upload_id, make=True) as folder:
        if not folder.lock():
            raise unavailable(f"another worker is taking over upload {upload_id}")
        for _ in range(_ATTEMPTS):
            # A living holder may rename its file between two looks at the folder.
            with suppress(FileNotFoundError):
                return _held_alone(folder)
    raise unavailable(_TOO_FAST)


def _held_alone(folder: Folder) -> HeldFile:
    best = max(_staged(folder), key=lambda staged: staged.durable, default=None)
    held = _begun(folder) if best is None else _held(folder, best)
    with ExitStack() as unless_cleared:
        unless_cleared.callback(os.close, held.descriptor)
        for _ in range(_ATTEMPTS):
            others = [name for name in folder.names() if name != held.staged.file]
            for name in others:
                folder.remove(name)
            if not others:
                unless_cleared.pop_all()
                return held
        raise unavailable(_TOO_FAST)


def _held(folder: Folder, best: StagedFile) -> HeldFile:
    best, found = StagedFile(fresh_name("file"), best.durable), best
    folder.rename(found.file, folder, best.file)
    source = folder.open(best.file, os.O_RDWR)
    with ExitStack() as unless_held:
        unless_held.callback(os.close, source)
        # A file with a second name is a blob already, so its bytes must not change.
        if not locked(source) or os.fstat(source).st_nlink > 1:
            return _copied(folder, source, best.durable)
        os.ftruncate(source, best.durable)
        held = HeldFile(source, best, _read(source, best.durable))
        unless_held.pop_all()
    return held


def _begun(folder: Folder) -> HeldFile:
    return _copied(folder, _NO_FILE, 0)


def _copied(folder: Folder, source: int, durable: int) -> HeldFile:
    """Copy the first bytes of another file into a new one."""
    staged = StagedFile(fresh_name("file"), 0)
    descriptor = folder.create(staged.file)
    with ExitStack() as unless_held:
        unless_held.callback(folder.remove, staged.file)
        unless_held.callback(os.close, descriptor)
        locked(descriptor)
        digest = _read(source, durable, into=descriptor)
        if durable:
            os.fsync(descriptor)
            marked = StagedFile(staged.name, durable)
            folder.rename(staged.file, folder, marked.file)
            staged = marked
        folder.sync()
        unless_held.pop_all()
    return HeldFile(descriptor, staged, digest)


def _read(source: int, length: int, *, into: int | None = None) -> Digest:
    """Hash the first bytes of a file, and copy them if `into` is given."""
    digest = sha256()
    for offset in range(0, length, _READ_BYTES):
        data = read_all(source, min(_READ_BYTES, length - offset), offset)
        digest.update(data)
        if into is not None:
            write_all(into, data, offset)
    return digest


def _staged(folder: Folder) -> list[StagedFile]:
    """Return the staged files that are complete. A file truncated by hand is not."""
    found: list[StagedFile] = []
    for entry in folder.entries():
        name, _, durable = entry.name.partition(".")
        if not (durable.isdecimal() and entry.is_file(follow_symlinks=False)):
            continue
        if entry.stat(follow_symlinks=False).st_size >= int(durable):
            found.append(StagedFile(name, int(durable)))
    return found
