"""`python -m hivemem_vectors`: one vectors worker, set by its environment."""

import sys

from hivemem_runtime.settings import load
from hivemem_runtime.worker import UNFIT, run
from hivemem_vectors.worker import VectorsSettings, build


def main() -> int:
    try:
        settings = load(VectorsSettings)
        run(settings, lambda: build(settings))
    except UNFIT as error:
        sys.stderr.write(f"hivemem-vectors: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
