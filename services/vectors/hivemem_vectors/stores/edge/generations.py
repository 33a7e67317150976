"""The files of a collection: generations of the engine's files, one of which is current.

The next generation is built beside it, and becomes current by the replacement of one small file, so that a kill at any
time leaves a whole one.
"""

import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple

import orjson

_CURRENT: Final = "current.json"
_ABOUT: Final = "collection.json"
_MAKING: Final = ".making-"
_DROPPED: Final = ".dropped-"


class About(NamedTuple):
    """The dimension and model of a collection."""

    dimension: int
    model: str


class Current(NamedTuple):
    """The current generation. `optimized` is the number of its points when its graphs were built."""

    generation: int
    optimized: int


def sweep(root: Path) -> None:
    """Remove half-made and half-dropped collections that kills have left."""
    for path in root.iterdir():
        if path.name.startswith((_MAKING, _DROPPED)):
            shutil.rmtree(path, ignore_errors=True)


def begin(root: Path, name: str, about: About) -> Path:
    """Return a folder for a new collection, which `finish` puts in its place."""
    folder = root / f"{_MAKING}{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _replace(folder / _ABOUT, about._asdict())
    set_current(folder, Current(1, 0))
    return folder


def finish(root: Path, name: str) -> None:
    (root / f"{_MAKING}{name}").rename(root / name)
    _sync(root)


def drop(root: Path, name: str) -> None:
    dropped = root / f"{_DROPPED}{name}"
    shutil.rmtree(dropped, ignore_errors=True)
    (root / name).rename(dropped)
    _sync(root)
    shutil.rmtree(dropped, ignore_errors=True)


def exists(root: Path, name: str) -> bool:
    return (root / name / _CURRENT).is_file()


def about(folder: Path) -> About:
    return About(**orjson.loads((folder / _ABOUT).read_bytes()))


def current(folder: Path) -> Current:
    return Current(**orjson.loads((folder / _CURRENT).read_bytes()))


def set_current(folder: Path, current: Current) -> None:
    _replace(folder / _CURRENT, current._asdict())


def generation(folder: Path, number: int) -> Path:
    return folder / f"generation-{number:06d}"


def remove_others(folder: Path, number: int) -> None:
    for path in folder.glob("generation-*"):
        if path != generation(folder, number):
            shutil.rmtree(path, ignore_errors=True)


def _replace(path: Path, fields: object) -> None:
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(orjson.dumps(fields))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
