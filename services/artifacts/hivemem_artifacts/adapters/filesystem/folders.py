"""Folders that cannot be left: every name is opened within an open folder, and no link is followed."""

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
"""Opening a pipe that somebody put there would otherwise wait for its other end."""


class Folder:
    """An open folder. Names are single components; a context manager closes it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def root(cls, path: Path, *, make: bool = False) -> Self:
        """The folder itself may be a link: whoever set the service up chose it."""
        if make:
            # Those above it are nobody else's either, which `mkdir` would not see to.
            for folder in (*reversed(path.parents), path):
                with suppress(FileExistsError):
                    folder.mkdir(FOLDER_MODE)
        return cls(os.open(path, _FOLDER))

    def folder(self, name: str, *, make: bool = False) -> "Folder":
        """A folder in this one. A new one is durable under its name."""
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
        """A folder some levels below."""
        below = self.folder(names[0], make=make)
        for name in names[1:]:
            with below as above:
                below = above.folder(name, make=make)
        return below

    def create(self, name: str) -> int:
        """A new file, open for reading and writing."""
        flags = _PLAIN | os.O_RDWR | os.O_CREAT | os.O_EXCL
        return os.open(name, flags, FILE_MODE, dir_fd=self.descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """An existing plain file; anything else is as if it were a link."""
        descriptor = os.open(name, _PLAIN | flags, dir_fd=self.descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return descriptor

    def status(self, name: str) -> os.stat_result | None:
        """Of what stands under the name itself, a link for instance."""
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
        """A second name for a file; `FileExistsError` where there is one."""
        os.link(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor, follow_symlinks=False)

    def rename(self, name: str, target: "Folder", new_name: str) -> None:
        """Replaces what has the new name."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)

    def remove(self, name: str) -> None:
        """Take a file or an empty folder away; nothing being there is fine."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Make the names durable."""
        os.fsync(self.descriptor)

    def lock(self) -> bool:
        """Take this folder for the holder of the descriptor alone; False where somebody else has it."""
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
    """Locks go with the descriptor, however its process ends."""
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
    """Let the disk begin with what was written, so that a later `fsync` waits less; it matters in no other way."""
    if hasattr(os, "posix_fadvise"):  # what is not needed in memory any more is written out at once
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(descriptor: int, length: int, offset: int) -> bytes:
    """Fewer than `length` only at the end of the file."""
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
