"""Run one sessions worker: `python -m hivemem_sessions`, configured by its environment."""

import sys

from hivemem_runtime.program import main
from hivemem_sessions.worker import WORKER

if __name__ == "__main__":
    sys.exit(main(WORKER))
