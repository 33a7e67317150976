"""Neither the client nor the worker needs memory in proportion to the file."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hivemem_testing.waiting import eventually

from .test_kills import Mill, connected, files_mill

__all__ = ["files_mill"]

pytestmark = [pytest.mark.slow]

SIZE = 256 * 1024 * 1024
LIMIT = 64 * 1024 * 1024

CLIENT = """
import asyncio, sys
import hivemem

def figure(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024

async def main(url, source, target):
    async with hivemem.connect(url, agent="bot") as hive:
        await hive.artifacts.upload("s1", "warm", b"x" * 2_000_000)
        await hive.artifacts.read("s1", "warm")
        before = figure("VmRSS:")
        await hive.artifacts.upload("s1", "large", source)
        await hive.artifacts.download("s1", "large", to=target)
        print(figure("VmHWM:") - before)

asyncio.run(main(*sys.argv[1:]))
"""


def figure(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the figures are those of Linux")
async def test_neither_side_grows_with_the_size_of_a_file(files_mill: Mill, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    block = os.urandom(1024 * 1024)
    with source.open("wb") as file:
        for number in range(SIZE // len(block)):
            file.write(number.to_bytes(8) + block[8:])
    worker = files_mill.worker()
    async with connected(files_mill) as hive:
        await hive.artifacts.upload("s1", "first", block * 4)
        await hive.artifacts.read("s1", "first")
    pid = worker.pid
    before = figure(pid, "VmRSS:")
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, files_mill.nats_url, str(source), str(target), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await client.communicate()
    await eventually(lambda: client.returncode == 0, "the client ends well")
    assert target.stat().st_size == SIZE
    grown = {"client": int(output), "worker": figure(pid, "VmHWM:") - before}
    assert all(bytes_more < LIMIT for bytes_more in grown.values()), grown
    print({name: f"{bytes_more / 2**20:.0f} MiB" for name, bytes_more in grown.items()})  # noqa: T201  # with -s
