"""The program that builds the graphs of a collection, in a copy of its files.

The binding holds the GIL for a whole build, 30 to 60 seconds, so that searches would wait as long. The program prints a
line when the copy is made, and ends with code 0 when the graphs are built.
"""

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(parent: int) -> None:
    """Kill this process when its parent ends, where the system can do that. Elsewhere the end of the pipe tells it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before it could be noticed


COPIED: Final = "copied"
_NICENESS: Final = 19


def main(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    sys.stdout.write(f"{COPIED}\n")
    sys.stdout.flush()
    os.nice(_NICENESS)

    from qdrant_edge import EdgeShard  # updates wait for the copy, and need not wait for this

    shard = EdgeShard.load(str(target))
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    die_with_parent(int(sys.argv[3]))
    main(Path(sys.argv[1]), Path(sys.argv[2]))
