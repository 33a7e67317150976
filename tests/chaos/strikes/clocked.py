"""A program on a clock that jumps: `python clocked.py CLOCK -m MODULE …` or `python clocked.py CLOCK SCRIPT …`.

CLOCK is a file with the nanoseconds to add to the time of day. The monotonic clock stays as it is.
"""

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path


def main(clock: str, *command: str) -> None:
    with Path(clock).open("rb") as file:
        shift = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    real = time.time_ns

    def now() -> int:
        return real() + int(struct.unpack("=q", shift[:8])[0])

    time.time_ns = now
    time.time = lambda: now() / 1_000_000_000
    if command[0] == "-m":
        sys.argv = list(command[1:])
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
