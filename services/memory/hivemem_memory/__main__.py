"""Run one memory worker: `python -m hivemem_memory`, configured by its environment."""

import sys

from hivemem_memory.worker import WORKER
from hivemem_runtime.program import main

if __name__ == "__main__":
    sys.exit(main(WORKER))
