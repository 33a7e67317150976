"""A worker that takes others for gone sooner, on a clock of its own: `python hasty_worker.py SHIFT_SECONDS MODULE`.

An erasure that a worker was killed in is another's after one second instead of ten, so that runs of seconds come to it;
and it then happens to workers that were only held up.
"""

import runpy
import sys
import time

from hivemem_memory.endpoints import erasures

PATIENCE = "ABANDONED_MICROSECONDS"
PATIENCE_MICROSECONDS = 1_000_000


def main(shift_seconds: str, module: str) -> None:
    shift = int(float(shift_seconds) * 1_000_000_000)
    real = time.time_ns
    time.time_ns = lambda: real() + shift
    setattr(erasures, PATIENCE, PATIENCE_MICROSECONDS)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
