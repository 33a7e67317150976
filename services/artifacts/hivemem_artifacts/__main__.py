"""Run one artifacts worker: `python -m hivemem_artifacts`, configured by its environment."""

import sys

from hivemem_artifacts.worker import ArtifactsSettings, build
from hivemem_runtime.settings import load
from hivemem_runtime.worker import UNFIT, run


def main() -> int:
    try:
        settings = load(ArtifactsSettings)
        run(settings, lambda: build(settings))
    except UNFIT as error:
        sys.stderr.write(f"hivemem-artifacts: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
