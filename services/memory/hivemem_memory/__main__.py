"""Run one memory worker: `python -m hivemem_memory`, configured by its environment."""

import sys

from hivemem_memory.worker import MemorySettings, build
from hivemem_runtime.settings import load
from hivemem_runtime.worker import UNFIT, run


def main() -> int:
    try:
        settings = load(MemorySettings)
        run(settings, lambda: build(settings))
    except UNFIT as error:
        sys.stderr.write(f"hivemem-memory: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
