"""Files below a folder, reached without following a link.

Every step goes from an open folder to a name in it, so that no link, also none that appears meanwhile, leads elsewhere.
"""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hivemem_contracts.errors import InvalidRequest

FILE_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | os.O_CLOEXEC
FOLDER_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC
_IN_FOLDER: Final = FOLDER_FLAGS | getattr(os, "O_NOFOLLOW", 0)
_READ_BYTES: Final = 1024 * 1024


def open_file(folder: int, name: str) -> int:
    """Open a regular file for reading. Raises `OSError` for anything else."""
    descriptor = os.open(name, FILE_FLAGS, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(f"{name} is no regular file")
    return descriptor


def open_folder(folder: int, name: str) -> int:
    return os.open(name, _IN_FOLDER, dir_fd=folder)


def names_in(folder: int) -> list[str]:
    """Return the names in an open folder."""
    with os.scandir(folder) as found:
        return [entry.name for entry in found]


def read_small(folder: int, name: str) -> bytes:
    """Return the bytes of a file."""
    return b"".join(pieces_of(folder, name))


def pieces_of(folder: int, name: str) -> Iterator[bytes]:
    """Yield the bytes of a file."""
    descriptor = open_file(folder, name)
    try:
        while piece := os.read(descriptor, _READ_BYTES):
            yield piece
    finally:
        os.close(descriptor)


@contextmanager
def opened_root(root: Path) -> Generator[int]:
    """Open a folder, which may be a link to one, while a block runs. Raises `InvalidRequest`."""
    try:
        descriptor = os.open(root, FOLDER_FLAGS)
    except OSError as error:
        raise InvalidRequest(f"path: {os.strerror(error.errno or 0)}, got {str(root)!r}", field="path") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_below(root: int, path: str) -> int:
    """Open a regular file below a folder for reading."""
    sandbox = Sandbox(root)
    try:
        return open_file(*sandbox.parent(path))
    finally:
        sandbox.leave()


class Sandbox:
    """An open folder, and the folders below it, of which the last one used stays open until `leave`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._path = ""
        self._folder = descriptor
        self.made: list[str] = []
        """The folders that were made, in order."""

    def parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """Return the open folder of a path, and the name in it. Raises `OSError` if a part of it is no folder."""
        above, _, name = path.rpartition("/")
        if above != self._path:
            self.leave()
            if above:
                self._enter(above, make=make)
        return self._folder, name

    def _enter(self, path: str, *, make: bool) -> None:
        folder, walked = self.descriptor, ""
        for name in path.split("/"):
            walked = f"{walked}/{name}" if walked else name
            try:
                inner = self._step(folder, name, walked, make=make)
            finally:
                if folder != self.descriptor:
                    os.close(folder)
            folder = inner
        self._folder, self._path = folder, path

    def _step(self, folder: int, name: str, walked: str, *, make: bool) -> int:
        try:
            return open_folder(folder, name)
        except FileNotFoundError:
            if not make:
                raise
        os.mkdir(name, 0o755, dir_fd=folder)
        self.made.append(walked)
        return open_folder(folder, name)

    def leave(self) -> None:
        """Close the folder used last."""
        if self._folder != self.descriptor:
            os.close(self._folder)
        self._folder, self._path = self.descriptor, ""
