"""`python -m hivemem_sessions`: one sessions worker, set by its environment."""

import sys

from hivemem_runtime.program import main
from hivemem_sessions.worker import WORKER

if __name__ == "__main__":
    sys.exit(main(WORKER))
