"""`python -m hivemem_windows`: one windows worker, set by its environment."""

import sys

from hivemem_runtime.program import main
from hivemem_windows.worker import WORKER

if __name__ == "__main__":
    sys.exit(main(WORKER))
