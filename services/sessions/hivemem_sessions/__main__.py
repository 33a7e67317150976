"""Run one sessions worker: `python -m hivemem_sessions`, configured by its environment."""

import sys

from hivemem_runtime.settings import load
from hivemem_runtime.worker import UNFIT, run
from hivemem_sessions.worker import SessionsSettings, build


def main() -> int:
    try:
        settings = load(SessionsSettings)
        run(settings, lambda: build(settings))
    except UNFIT as error:
        sys.stderr.write(f"hivemem-sessions: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
