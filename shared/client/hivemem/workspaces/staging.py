"""The folder of a restore: new files arrive in it, and old ones wait in it until the restore is complete.

A plan on disk says which files change places. The next restore of the folder reads the plan that a killed one left, and
puts back what had changed.
"""

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import aclosing, suppress
from hashlib import sha256
from threading import Event
from typing import TYPE_CHECKING, Final

import orjson

from hivemem.threads import to_the_end
from hivemem.workspaces.sandbox import Sandbox, names_in, open_folder, pieces_of, read_small
from hivemem_contracts.artifacts.workspace_files import RESTORE_PREFIX, WorkspaceFile
from hivemem_contracts.errors import Internal, InvalidRequest
from hivemem_contracts.identifiers import new_id

if TYPE_CHECKING:
    from hivemem.workspaces.reading import BlobReader, Piece

PLAN: Final = "plan.json"
_NEW: Final = "new"
_OLD: Final = "old"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Staging:
    """The folder of one restore, within the folder that it restores, so that files can change places."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._name = f"{RESTORE_PREFIX}{new_id()}"
        os.mkdir(self._name, 0o700, dir_fd=root)
        self._folder = open_folder(root, self._name)
        for name in (_NEW, _OLD):
            os.mkdir(name, 0o700, dir_fd=self._folder)
        self._new, self._old = open_folder(self._folder, _NEW), open_folder(self._folder, _OLD)
        self._files: Sequence[WorkspaceFile] = ()

    async def fill(self, files: Sequence[WorkspaceFile], reader: "BlobReader") -> None:
        """Prepare files, each under its number. Raises `Internal` if bytes do not match their hash."""
        self._files = files
        numbers: dict[str, int] = {}
        for number, file in enumerate(files):
            if file.target is None:
                numbers.setdefault(file.sha256, number)
        writer = _BlobWriter(self._new, numbers)
        blobs = [(digest, files[number].size) for digest, number in numbers.items()]
        try:
            async with aclosing(reader.pieces(blobs)) as found:
                async for pieces in found:
                    await to_the_end(writer.write, pieces)
            await to_the_end(writer.finish, blobs)
        finally:
            writer.close()
        await to_the_end(self._complete, numbers)

    def _complete(self, numbers: dict[str, int]) -> None:
        """Make the links, the copies of equal files, and the modes."""
        for number, file in enumerate(self._files):
            if file.target is not None:
                os.symlink(file.target, str(number), dir_fd=self._new)
            elif numbers[file.sha256] != number:
                with os.fdopen(os.open(str(number), _CREATE, 0o600, dir_fd=self._new), "wb") as copy:
                    copy.writelines(pieces_of(self._new, str(numbers[file.sha256])))
        for number, file in enumerate(self._files):
            if file.target is None:
                os.chmod(str(number), file.mode, dir_fd=self._new)

    def exchange(self, extra: Sequence[str], stop: Event) -> None:
        """Move the new files to their places, and old and extra ones into this folder. An error puts all back."""
        paths = [file.path for file in self._files]
        self._write_plan(len(paths), [*paths, *extra])
        sandbox = Sandbox(self._root)
        path = ""
        try:
            for number, path in enumerate(extra, len(paths)):
                self._move_out(number, *sandbox.parent(path))
            for number, path in enumerate(paths):
                if stop.is_set():
                    raise InvalidRequest("path: the restore was cancelled", field="path")
                self._move_in(number, *sandbox.parent(path, make=True))
        except BaseException as error:
            put_back(self._root, self._name, sandbox.made)
            if not isinstance(error, OSError):
                raise
            reason = f"something else is in the place of a file or a folder: {os.strerror(error.errno or 0)}"
            raise InvalidRequest(f"path: {reason}, got {path!r}", field="path") from error
        finally:
            sandbox.leave()
        os.unlink(PLAN, dir_fd=self._folder)
        _remove_empty_folders(self._root, extra)

    def _write_plan(self, files: int, paths: Sequence[str]) -> None:
        part = f"{PLAN}.part"
        with os.fdopen(os.open(part, _CREATE, 0o600, dir_fd=self._folder), "wb") as plan:
            plan.write(orjson.dumps([files, paths]))
            plan.flush()
            os.fsync(plan.fileno())
        os.rename(part, PLAN, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def _move_out(self, number: int, folder: int, name: str) -> None:
        with suppress(FileNotFoundError):
            os.rename(name, str(number), src_dir_fd=folder, dst_dir_fd=self._old)

    def _move_in(self, number: int, folder: int, name: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError, BlockingIOError):
            _require_empty(folder, name)
        self._move_out(number, folder, name)
        os.rename(str(number), name, src_dir_fd=self._new, dst_dir_fd=folder)

    def remove(self) -> None:
        """Remove the folder and its files, unless files could not be put back."""
        for descriptor in (self._new, self._old, self._folder):
            os.close(descriptor)
        _remove_staging(self._root, self._name)


class _BlobWriter:
    """Writes the pieces of blobs in order, each blob to a file of its number, and hashes them."""

    def __init__(self, folder: int, numbers: dict[str, int]) -> None:
        self._folder = folder
        self._numbers = numbers
        self._digest = ""
        self._descriptor = -1
        self._hash = sha256()

    def write(self, pieces: "Sequence[Piece]") -> None:
        for (digest, _, _), data in pieces:
            if digest != self._digest:
                self._begin(digest)
            self._hash.update(data)
            rest = data
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def _begin(self, digest: str) -> None:
        self._end()
        self._descriptor = os.open(str(self._numbers[digest]), _CREATE, 0o600, dir_fd=self._folder)
        self._digest, self._hash = digest, sha256()

    def _end(self) -> None:
        if self._descriptor >= 0 and self._hash.hexdigest() != self._digest:
            raise Internal(f"artifacts: the received bytes do not match their hash {self._digest}")
        self.close()

    def finish(self, blobs: Sequence[tuple[str, int]]) -> None:
        """Check the last blob, and write the empty one, of which no piece arrives."""
        self._end()
        for digest, size in blobs:
            if not size:
                self._begin(digest)
                self._end()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _require_empty(folder: int, name: str) -> None:
    """Raise `OSError` if a name is a folder that has files."""
    inner = open_folder(folder, name)
    try:
        if names_in(inner):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
    finally:
        os.close(inner)


def abandoned(root: int) -> list[str]:
    """Return the folders of restores that were killed. The caller holds the lock of the root."""
    return [name for name in names_in(root) if name.startswith(RESTORE_PREFIX)]


def put_back(root: int, name: str, made: Sequence[str] = ()) -> None:
    """Put the files of an incomplete restore back, and remove the files and folders that it made."""
    folder = open_folder(root, name)
    try:
        with suppress(FileNotFoundError):
            files, paths = orjson.loads(read_small(folder, PLAN))
            _reverse(root, folder, files, paths)
            os.unlink(PLAN, dir_fd=folder)
    finally:
        os.close(folder)
    sandbox = Sandbox(root)
    for path in reversed(made):
        with suppress(OSError):
            above, own = sandbox.parent(path)
            os.rmdir(own, dir_fd=above)
    sandbox.leave()
    _remove_staging(root, name)


def _reverse(root: int, folder: int, files: int, paths: Sequence[str]) -> None:
    """Move back what moved. The first `files` of the paths belong to new files."""
    sandbox = Sandbox(root)
    old, new = open_folder(folder, _OLD), open_folder(folder, _NEW)
    try:
        had, waiting = set(names_in(old)), set(names_in(new))
        for number, path in enumerate(paths):
            if number < files and str(number) not in waiting:
                with suppress(OSError):
                    above, name = sandbox.parent(path)
                    os.unlink(name, dir_fd=above)
            if str(number) in had:
                above, name = sandbox.parent(path, make=True)
                os.rename(str(number), name, src_dir_fd=old, dst_dir_fd=above)
    finally:
        sandbox.leave()
        os.close(old)
        os.close(new)


def _remove_staging(root: int, name: str) -> None:
    """Remove the folder of a restore, unless its plan is not carried out."""
    with suppress(OSError):
        folder = open_folder(root, name)
        planned = PLAN in names_in(folder)
        os.close(folder)
        if not planned:
            shutil.rmtree(name, dir_fd=root)


def _remove_empty_folders(root: int, paths: Sequence[str]) -> None:
    """Remove the folders that became empty when files left."""
    sandbox = Sandbox(root)
    for path in paths:
        above = path.rpartition("/")[0]
        while above:
            try:
                folder, name = sandbox.parent(above)
                os.rmdir(name, dir_fd=folder)
            except OSError:
                break
            above = above.rpartition("/")[0]
    sandbox.leave()
