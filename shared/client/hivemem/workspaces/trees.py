"""The files of a folder: a walk that leaves out what is ignored, and names what no workspace can hold."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Final

from pydantic_core import PydanticCustomError

from hivemem.workspaces.ignoring import IgnoreRules, ignore_rules
from hivemem.workspaces.sandbox import open_folder, opened_root, pieces_of
from hivemem_contracts.artifacts.names import check_name
from hivemem_contracts.artifacts.workspace_files import UP, check_target, folded, link_content
from hivemem_contracts.errors import InvalidRequest

MODE_BITS: Final = 0o777


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that no version can hold, with the reason."""

    path: str
    reason: str


@dataclass(slots=True)
class LocalFile:
    """A file or a link of a folder."""

    path: str
    sha256: str
    size: int
    mode: int
    target: str | None = None


@dataclass(slots=True)
class LocalTree:
    """The files of a folder by path, and what was skipped."""

    files: list[LocalFile] = field(default_factory=list[LocalFile])
    skipped: list[Skipped] = field(default_factory=list[Skipped])


def read_tree(root: Path, patterns: Sequence[str], stop: Event) -> LocalTree:
    """Return the files of a folder with their hashes. It blocks, so call it in a thread."""
    walk = _Walk(patterns, stop)
    with opened_root(root) as descriptor:
        walk.folder(descriptor, "", walk.rules, _hashed)
    return walk.tree


def list_tree(descriptor: int, patterns: Sequence[str], stop: Event) -> LocalTree:
    """Return the files of an open folder without their hashes."""
    walk = _Walk(patterns, stop)
    walk.folder(descriptor, "", walk.rules, lambda folder, name: ("", 0))
    return walk.tree


Hashing = Callable[[int, str], tuple[str, int]]


def _hashed(folder: int, name: str) -> tuple[str, int]:
    digest, size = sha256(), 0
    for piece in pieces_of(folder, name):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


class _Walk:
    def __init__(self, patterns: Sequence[str], stop: Event) -> None:
        self.rules = ignore_rules(patterns)
        self.tree = LocalTree()
        self._stop = stop
        self._spellings: dict[str, str] = {}

    def folder(self, folder: int, prefix: str, above: IgnoreRules, hashing: Hashing) -> None:
        rules = above.below(folder, prefix)
        for entry in _entries(folder):
            if self._stop.is_set():
                return
            path = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.ignores(path, is_folder=is_folder) or not self._holds(path):
                continue
            try:
                if is_folder:
                    self._inner(folder, entry.name, path, rules, hashing)
                else:
                    self._file(folder, entry, path, hashing)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            except OSError as error:
                raise InvalidRequest(f"path: {os.strerror(error.errno or 0)}, got {path!r}", field="path") from error

    def _inner(self, folder: int, name: str, path: str, rules: IgnoreRules, hashing: Hashing) -> None:
        inner = open_folder(folder, name)
        try:
            self.folder(inner, f"{path}/", rules, hashing)
        finally:
            os.close(inner)

    def _file(self, folder: int, entry: "os.DirEntry[str]", path: str, hashing: Hashing) -> None:
        if entry.is_symlink():
            self._link(path, os.readlink(entry.name, dir_fd=folder))
        elif entry.is_file(follow_symlinks=False):
            mode = entry.stat(follow_symlinks=False).st_mode & MODE_BITS
            self.tree.files.append(LocalFile(path, *hashing(folder, entry.name), mode))
        else:
            self._skip(path, "it is neither a file, a folder nor a link")

    def _link(self, path: str, target: str) -> None:
        try:
            check_target(target)
        except (PydanticCustomError, UnicodeError) as error:
            self._skip(path, f"the link leads to {target!r}: {error}")
            return
        if target.count(UP) > path.count("/"):
            self._skip(path, f"the link leads out of the folder, to {target!r}")
        else:
            self.tree.files.append(LocalFile(path, *link_content(target), 0o644, target))

    def _holds(self, path: str) -> bool:
        """Return whether a version can hold a path, and note the reason if not."""
        try:
            check_name(path)
        except (PydanticCustomError, UnicodeError) as error:
            self._skip(path, str(error))
            return False
        spelled = self._spellings.setdefault(folded(path), path)
        if spelled != path:
            self._skip(path, f"some systems cannot tell it from {spelled!r}")
        return spelled == path

    def _skip(self, path: str, reason: str) -> None:
        self.tree.skipped.append(Skipped(path.encode("utf-8", "replace").decode(), reason))


def _entries(folder: int) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(folder) as found:
        yield from sorted(found, key=lambda entry: entry.name)
