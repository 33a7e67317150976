"""Folders as open descriptors. Every name is opened inside an open folder and no link is followed, so no name leads
outside."""

import errno
import fcntl
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PLAIN: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""`O_NONBLOCK` because opening a named pipe would otherwise wait for its other end."""


class Folder:
    """An open folder, usable as a context manager. Names are single path components."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def root(cls, path: Path, *, make: bool = False) -> Self:
        """Open the root folder, which the operator may have made a link."""
        if make:
            # Parents get the same mode, which `mkdir(parents=True)` would not set.
            for folder in (*reversed(path.parents), path):
                with suppress(FileExistsError):
                    folder.mkdir(FOLDER_MODE)
        return cls(os.open(path, _FOLDER))

    def folder(self, name: str, *, make: bool = False) -> "Folder":
        """Open a folder inside this one. A new folder is durable when this returns."""
        try:
            return Folder(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor))
        except FileNotFoundError:
            if not make:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=self.descriptor)
        self.sync()
        return Folder(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor))

    def within(self, *names: str, make: bool = False) -> "Folder":
        """Open a folder several levels below this one."""
        below = self.folder(names[0], make=make)
        for name in names[1:]:
            with below as above:
                below = above.folder(name, make=make)
        return below

    def create(self, name: str) -> int:
        """Create a new file, open for reading and writing."""
        flags = _PLAIN | os.O_RDWR | os.O_CREAT | os.O_EXCL
        return os.open(name, flags, FILE_MODE, dir_fd=self.descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open an existing plain file. Anything else raises the same error as a link."""
        descriptor = os.open(name, _PLAIN | flags, dir_fd=self.descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return descriptor

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of the name itself, without following a link."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        return [entry.name for entry in self.entries()]

    def folder_names(self) -> list[str]:
        return [entry.name for entry in self.entries() if entry.is_dir(follow_symlinks=False)]

    def entries(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.descriptor) as entries:
            yield from entries

    def link(self, name: str, target: "Folder", new_name: str) -> None:
        """Add a second name for a file. Raises `FileExistsError` if the new name exists."""
        os.link(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor, follow_symlinks=False)

    def rename(self, name: str, target: "Folder", new_name: str) -> None:
        """Rename a file, replacing the file with the new name."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file or an empty folder, if it exists."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make the names in this folder durable."""
        os.fsync(self.descriptor)

    def lock(self) -> bool:
        """Lock this folder for the holder of the descriptor. Returns False if another descriptor holds the lock."""
        return locked(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def locked(descriptor: int) -> bool:
    """Lock a descriptor without waiting, and return whether that worked. The lock ends with the descriptor, even if
    the process is killed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def begin_writing(descriptor: int) -> None:
    """Ask the kernel to start writing to disk, so that a later `fsync` waits less. This only affects speed."""
    if hasattr(os, "posix_fadvise"):  # pages that are dropped from the cache are written out at once
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(descriptor: int, length: int, offset: int) -> bytes:
    """Read a range of a file. The result is shorter than `length` only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    while data and len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


@contextmanager
def closing(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
