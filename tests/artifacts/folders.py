"""Folders of files, for tests of workspaces."""

import stat
from pathlib import Path
from typing import Any


def make(root: Path, **files: str | bytes) -> Path:
    """Write files; `__` in a name is a slash."""
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return root


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def seen(root: Path) -> dict[str, Any]:
    """Return what a folder holds: the bytes and mode of files, the targets of links, and folders."""
    found: dict[str, Any] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found
