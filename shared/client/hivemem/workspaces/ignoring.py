"""Ignore rules: `.gitignore` and `.hivememignore` of each folder, and patterns of the caller."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pathspec import GitIgnoreSpec

from hivemem.workspaces.sandbox import read_small
from hivemem_contracts.artifacts.workspace_files import RESTORE_PREFIX
from hivemem_contracts.errors import InvalidRequest

FILES: Final = (".gitignore", ".hivememignore")
"""The files with rules, the later ones stronger."""

DEFAULTS: Final = frozenset({".git"})
"""Folders that are ignored unless a rule includes them."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that apply in a folder: the caller's, then the rules of each folder from the innermost one up."""

    own: GitIgnoreSpec | None
    folders: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def below(self, folder: int, prefix: str) -> "IgnoreRules":
        """Return the rules within a folder, given its descriptor and its path with a slash at the end."""
        lines = [line for name in FILES for line in _lines(folder, name)]
        if not lines:
            return self
        return IgnoreRules(self.own, ((prefix, _spec(lines, prefix)), *self.folders))

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is left out. Nothing within an ignored folder can be included again."""
        name = path.rpartition("/")[2]
        if is_folder and name.startswith(RESTORE_PREFIX):
            return True
        shown = path + "/" if is_folder else path
        if self.own is not None and (said := self.own.check_file(shown).include) is not None:
            return said
        for prefix, spec in self.folders:
            if (said := spec.check_file(shown[len(prefix) :]).include) is not None:
                return said
        return is_folder and name in DEFAULTS


def ignore_rules(patterns: Sequence[str]) -> IgnoreRules:
    """Return the rules of the caller. Raises `InvalidRequest` for a malformed pattern."""
    return IgnoreRules(_spec(patterns, "ignore") if patterns else None)


def _spec(lines: Sequence[str], place: str) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise InvalidRequest(f"ignore: a pattern of {place or './'} is malformed: {error}", field="ignore") from error


def _lines(folder: int, name: str) -> list[str]:
    try:
        return read_small(folder, name).decode("utf-8", "replace").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise InvalidRequest(f"ignore: {name} cannot be read: {reason}", field="ignore") from error
