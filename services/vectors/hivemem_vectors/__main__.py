"""`python -m hivemem_vectors`: one vectors worker, set by its environment."""

import sys

from hivemem_runtime.program import main
from hivemem_vectors.worker import WORKER

if __name__ == "__main__":
    sys.exit(main(WORKER))
