"""`python -m benchmarks.artifacts.carrier URL up|down SESSION NAME FILE`: one transfer by a process of its own.

It prints its time in seconds, and the growth of the process in bytes, as JSON.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import hivemem
from benchmarks.artifacts.lab import AGENT, TIMEOUT_SECONDS
from benchmarks.machine import largest_bytes

WARM = bytes(2 * 1024 * 1024)
"""The warm-up file, which is transferred first so that one-time loading and setup do not count as growth."""


async def carry(url: str, way: str, session: str, name: str, file: Path) -> dict[str, float]:
    async with hivemem.connect(url, agent=AGENT, timeout_seconds=TIMEOUT_SECONDS) as hive:
        await hive.artifacts.upload(session, "warm", WARM)
        await hive.artifacts.read(session, "warm")
        before, started = largest_bytes(os.getpid()), time.perf_counter()
        if way == "up":
            await hive.artifacts.upload(session, name, file)
        else:
            await hive.artifacts.download(session, name, to=file)
        return {"seconds": time.perf_counter() - started, "growth": largest_bytes(os.getpid()) - before}


if __name__ == "__main__":
    _, url, way, session, name, file = sys.argv
    print(json.dumps(asyncio.run(carry(url, way, session, name, Path(file)))))
