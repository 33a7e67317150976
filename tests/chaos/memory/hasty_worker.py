"""A memory worker that takes others for gone sooner.

An erasure that a worker was killed in is another's after one second instead of ten, so that runs of seconds come to it;
and it then happens to workers that were only held up.
"""

import runpy

from hivemem_memory.endpoints import erasures

PATIENCE = "ABANDONED_MICROSECONDS"
PATIENCE_MICROSECONDS = 1_000_000

if __name__ == "__main__":
    setattr(erasures, PATIENCE, PATIENCE_MICROSECONDS)
    runpy.run_module("hivemem_memory", run_name="__main__", alter_sys=True)
