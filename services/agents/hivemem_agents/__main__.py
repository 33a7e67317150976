"""`python -m hivemem_agents`: one agents worker, set by its environment."""

import sys

from hivemem_agents.worker import WORKER
from hivemem_runtime.program import main

if __name__ == "__main__":
    sys.exit(main(WORKER))
