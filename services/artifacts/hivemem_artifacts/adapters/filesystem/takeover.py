"""Taking over what is staged of an upload, so that nobody else can change it.

The name of a staged file says how many of its bytes are durable. The bytes past those may be zeros after a loss of
power, so they are not trusted. A file is held by a lock. Who takes over first gives the file another name, so that
an earlier holder can mark nothing more as durable, and copies it where that one still lives, so that no late write of
it is seen.
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
_TOO_FAST: Final = "the upload goes on elsewhere, too fast to be taken over"


class Staged(NamedTuple):
    """A file of an upload."""

    name: str
    durable: int

    @property
    def file(self) -> str:
        return f"{self.name}.{self.durable}"


class Held(NamedTuple):
    """A file that nobody else can change, open, with the hash of its durable bytes."""

    descriptor: int
    staged: Staged
    hash: Digest


def take_over(layout: Layout, upload_id: str) -> Held:
    """Blocks for as long as it takes to read, or to copy, what is staged."""
    with translated(), layout.upload(upload_id, make=True) as folder:
        if not folder.lock():
            raise unavailable(f"the upload {upload_id} is being taken over by somebody else")
        for _ in range(_ATTEMPTS):
            # A live holder may give its file a new name between a look and the next.
            with suppress(FileNotFoundError):
                return _held_alone(folder)
    raise unavailable(_TOO_FAST)


def _held_alone(folder: Folder) -> Held:
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


def _held(folder: Folder, best: Staged) -> Held:
    best, found = Staged(fresh_name("file"), best.durable), best
    folder.rename(found.file, folder, best.file)
    source = folder.open(best.file, os.O_RDWR)
    with ExitStack() as unless_held:
        unless_held.callback(os.close, source)
        # With a second name it is a blob already, whose bytes must stay as they are.
        if not locked(source) or os.fstat(source).st_nlink > 1:
            return _copied(folder, source, best.durable)
        os.ftruncate(source, best.durable)
        held = Held(source, best, _read(source, best.durable))
        unless_held.pop_all()
    return held


def _begun(folder: Folder) -> Held:
    return _copied(folder, _NO_FILE, 0)


def _copied(folder: Folder, source: int, durable: int) -> Held:
    """A file of our own with the first bytes of another one."""
    staged = Staged(fresh_name("file"), 0)
    descriptor = folder.create(staged.file)
    with ExitStack() as unless_held:
        unless_held.callback(folder.remove, staged.file)
        unless_held.callback(os.close, descriptor)
        locked(descriptor)
        digest = _read(source, durable, into=descriptor)
        if durable:
            os.fsync(descriptor)
            marked = Staged(staged.name, durable)
            folder.rename(staged.file, folder, marked.file)
            staged = marked
        folder.sync()
        unless_held.pop_all()
    return Held(descriptor, staged, digest)


def _read(source: int, length: int, *, into: int | None = None) -> Digest:
    """The hash of the first bytes of a file, which are also copied where that is wanted."""
    digest = sha256()
    for offset in range(0, length, _READ_BYTES):
        data = read_all(source, min(_READ_BYTES, length - offset), offset)
        digest.update(data)
        if into is not None:
            write_all(into, data, offset)
    return digest


def _staged(folder: Folder) -> list[Staged]:
    """What can be gone on with. A file that was cut short by hand cannot."""
    found: list[Staged] = []
    for entry in folder.entries():
        name, _, durable = entry.name.partition(".")
        if not (durable.isdecimal() and entry.is_file(follow_symlinks=False)):
            continue
        if entry.stat(follow_symlinks=False).st_size >= int(durable):
            found.append(Staged(name, int(durable)))
    return found
