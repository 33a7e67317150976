"""The program that builds the graphs of a collection, in a copy of its files.

The engine gives nothing else of its process a turn while it builds, so that searches would stand still for as long.
Once the copy is made it says so, with a line, and its end with code 0 says that the copy is ready.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from hivemem_vectors.adapters.edge.parenthood import die_with_parent

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
