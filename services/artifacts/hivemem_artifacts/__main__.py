"""Run one artifacts worker: `python -m hivemem_artifacts`, configured by its environment."""

import sys

from hivemem_artifacts.worker import WORKER
from hivemem_runtime.program import main

if __name__ == "__main__":
    sys.exit(main(WORKER))
