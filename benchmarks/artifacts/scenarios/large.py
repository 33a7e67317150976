"""A large file over the bus, up and down, each by a process of its own."""

import asyncio
import json
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.artifacts.bare import copy, publish_chunks
from benchmarks.artifacts.lab import Lab
from benchmarks.fleets import Fleet
from benchmarks.machine import largest_bytes
from benchmarks.turns import fresh

MEGABYTE = 1_000_000
MEBIBYTE = 1024 * 1024


async def run(lab: Lab) -> None:
    size = lab.sizes.large_bytes
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    any_fleet = next(iter(lab.fleets.values()))
    for _ in range(lab.sizes.rounds):
        # New bytes each time, because bytes in the store would not be sent.
        file = await lab.file("large", size)
        for store, fleet in lab.fleets.items():
            session, name = fresh("large"), "large.bin"
            for way, measure, path in (("up", "upload", file), ("down", "download", lab.directory / "fetched")):
                seconds, client, worker = await _carry(fleet, way, session, name, path)
                found[measure, store, "MB/s"].append(size / MEGABYTE / seconds)
                found[f"{measure}, client grows", store, "MiB"].append(client / MEBIBYTE)
                found[f"{measure}, worker grows", store, "MiB"].append(worker / MEBIBYTE)
            (lab.directory / "fetched").unlink()
        for measure in ("upload", "download"):
            found[measure, "nats", "MB/s"].append(size / MEGABYTE / await publish_chunks(any_fleet.url, file))
            copied = await asyncio.to_thread(copy, file, lab.directory / "copy")
            found[measure, "copy", "MB/s"].append(size / MEGABYTE / copied)
        file.unlink()
    for (measure, name, unit), taken in found.items():
        lab.results.add(measure, name, unit, taken)
    for store in lab.fleets:
        for measure in ("upload", "download"):
            mine = lab.results.value(measure, store) or 0.0
            ratios = ", ".join(
                f"{mine / other:.2f}x {text}"
                for peer, text in (("nats", "raw NATS"), ("copy", "a copy of the file"))
                if (other := lab.results.value(measure, peer))
            )
            lab.results.notes.append(f"{measure} of {size // MEBIBYTE} MiB, {store}: {ratios}")


async def _carry(fleet: Fleet, way: str, session: str, name: str, file: Path) -> tuple[float, float, float]:
    """Return the seconds, and the growth of client and worker in bytes."""
    before = largest_bytes(fleet.worker.pid)
    command = [sys.executable, "-m", "benchmarks.artifacts.carrier", fleet.url, way, session, name, str(file)]
    carrier = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await carrier.communicate()
    if carrier.returncode:
        raise RuntimeError(f"{way}: the transfer failed")
    told: dict[str, float] = json.loads(output)
    return told["seconds"], told["growth"], largest_bytes(fleet.worker.pid) - before
