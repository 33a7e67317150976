"""Folders as a whole: snapshots of many small files, and a large folder restored, next to git and to a copy."""

import asyncio
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import hivemem
from benchmarks.artifacts.lab import Lab
from benchmarks.artifacts.sizes import SMALL_BYTES
from benchmarks.fleets import Store
from benchmarks.turns import fresh, turns

MEGABYTE = 1_000_000
FOLDERS = 100
LARGE_FILES = 64

Contender = Store | str


async def run(lab: Lab) -> None:
    found: dict[tuple[str, Contender, str], list[float]] = defaultdict(list)
    contenders: list[Contender] = [*lab.hivemem, "git", "cp"]
    for number, contender in turns(contenders, lab.sizes.rounds):
        # New bytes each time, because bytes in the store would not be sent.
        small, large = lab.directory / "small", lab.directory / "large"
        await asyncio.to_thread(_tree, small, lab.sizes.small_files, SMALL_BYTES)
        await asyncio.to_thread(_tree, large, LARGE_FILES, lab.sizes.large_bytes // LARGE_FILES)
        work = lab.directory / f"work-{contender}-{number}"
        if contender == "git":
            measured = await asyncio.to_thread(_git, small, work)
        elif contender == "cp":
            measured = await asyncio.to_thread(_copy, small, large, work)
        else:
            measured = await _hivemem(lab.hivemem[contender], small, large, work)
        for measure, seconds in measured.items():
            is_large = measure == LARGE
            amount = lab.sizes.large_bytes / MEGABYTE if is_large else lab.sizes.small_files
            found[measure, contender, "MB/s" if is_large else "/s"].append(amount / seconds)
        for folder in (small, large, work):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    for (measure, name, unit), taken in found.items():
        lab.results.add(measure, name, unit, taken)


FIRST, UNCHANGED, ONE_CHANGED = "first snapshot", "unchanged snapshot", "snapshot after a change"
RESTORED, LARGE = "folder restored", "large folder restored"


def _tree(root: Path, files: int, size: int) -> None:
    for number in range(files):
        path = root / f"d{number % FOLDERS}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))


async def _hivemem(hive: hivemem.Hive, small: Path, large: Path, work: Path) -> dict[str, float]:
    workspace, measured = fresh("small"), dict[str, float]()
    for measure in (FIRST, UNCHANGED, ONE_CHANGED):
        if measure == ONE_CHANGED:
            (small / "d0" / "f0").write_bytes(os.urandom(SMALL_BYTES))
        started = time.perf_counter()
        await hive.workspaces.snapshot(small, workspace_id=workspace)
        measured[measure] = time.perf_counter() - started
    started = time.perf_counter()
    await hive.workspaces.restore(workspace, work / "small")
    measured[RESTORED] = time.perf_counter() - started
    other = fresh("large")
    await hive.workspaces.snapshot(large, workspace_id=other)
    started = time.perf_counter()
    await hive.workspaces.restore(other, work / "large")
    measured[LARGE] = time.perf_counter() - started
    return measured


def _git(small: Path, work: Path) -> dict[str, float]:
    """Measure a commit of git, which compresses and waits for no disk."""
    subprocess.run(["git", "init", "--quiet", str(work)], check=True)
    commit = "git add --all && git -c user.name=b -c user.email=b@b commit --quiet --allow-empty --message m"
    environment = {**os.environ, "GIT_DIR": str(work / ".git"), "GIT_WORK_TREE": str(small)}

    def timed() -> float:
        return _seconds(lambda: subprocess.run(commit, shell=True, check=True, cwd=small, env=environment))  # noqa: S602 - a fixed text

    measured = {FIRST: timed(), UNCHANGED: timed()}
    (small / "d0" / "f0").write_bytes(os.urandom(SMALL_BYTES))
    measured[ONE_CHANGED] = timed()
    to = {**environment, "GIT_WORK_TREE": str(work / "out")}
    (work / "out").mkdir()
    checkout = ["git", "checkout-index", "--all"]
    measured[RESTORED] = _seconds(lambda: subprocess.run(checkout, check=True, cwd=work / "out", env=to))
    return measured


def _copy(small: Path, large: Path, work: Path) -> dict[str, float]:
    work.mkdir()
    first = _seconds(lambda: subprocess.run(["cp", "-r", str(small), str(work / "small")], check=True))
    again = _seconds(lambda: subprocess.run(["cp", "-r", str(large), str(work / "large")], check=True))
    return {FIRST: first, RESTORED: first, LARGE: again}


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
