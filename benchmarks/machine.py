"""The machine of the run. Absolute times mean little without it."""

import asyncio
import os
import platform
import resource
import sqlite3
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.timing import median, percentile

FSYNCS = 200
CALM_SECONDS = 3.0
CALM_CORES = 0.3
LONGEST_SECONDS = 180.0
POLL_SECONDS = 0.5


class Company:
    """Measures the other load of the machine during the run. Read it when all processes of the run have ended."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._busy, self._ours = busy_seconds(), _our_seconds()

    def cores(self) -> str:
        """Return the average number of cores that were busy with other work."""
        others = (busy_seconds() - self._busy) - (_our_seconds() - self._ours)
        return f"{max(0.0, others) / (time.monotonic() - self._started):.1f} cores, on average of the run"


def busy_seconds() -> float:
    """Return the processor time of all cores since the machine started: user, nice and system, with interrupts."""
    fields = Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    user, nice, system, _idle, _waiting, hard, soft = map(int, fields)
    return (user + nice + system + hard + soft) / os.sysconf("SC_CLK_TCK")


async def at_rest() -> float:
    """Wait until background work has ended, or it takes too long; return the time waited."""
    began = calm_since = time.monotonic()
    while time.monotonic() - calm_since < CALM_SECONDS and time.monotonic() - began < LONGEST_SECONDS:
        before, at = busy_seconds(), time.monotonic()
        await asyncio.sleep(POLL_SECONDS)
        if (busy_seconds() - before) / (time.monotonic() - at) > CALM_CORES:
            calm_since = time.monotonic()
    return calm_since - began


def _our_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def largest_bytes(pid: int) -> int:
    """Return the peak memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024


def describe(directory: Path, servers: Mapping[str, str], packages: Sequence[str]) -> dict[str, str]:
    """Describe the machine, by the labels of the table; `directory` holds the data of the run."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "system": f"{platform.system()} {platform.release()}, load at the start {load}",
        "disk": f"{_filesystem(directory)}, {_fsync(directory)}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        **dict(sorted(servers.items())),
        **{package: version(package) for package in packages},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _filesystem(directory: Path) -> str:
    """Return the type of the file system of the folder."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown file system"
    above = [(point, kind) for point, kind in mounts if directory.resolve().is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else "unknown file system"


def _fsync(directory: Path) -> str:
    """Measure how long the disk takes to make 4 KiB durable."""
    file = directory / "fsync-probe"
    samples: list[float] = []
    with file.open("wb", buffering=0) as probe:
        for _ in range(FSYNCS):
            probe.write(bytes(4_096))
            before = time.perf_counter()
            os.fdatasync(probe.fileno())
            samples.append((time.perf_counter() - before) * 1_000)
    file.unlink()
    return f"fdatasync of 4 KiB p50 {median(samples):.2f} ms, p99 {percentile(samples, 99):.2f} ms"
