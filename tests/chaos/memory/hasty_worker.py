"""A memory worker that takes others for gone sooner.

It takes over the erasure of a killed worker after one second instead of ten, so that short runs reach this case. It
then also takes over from workers that are only delayed.
"""

import runpy

from hivemem_memory.endpoints import erasures

PATIENCE = "ABANDONED_MICROSECONDS"
PATIENCE_MICROSECONDS = 1_000_000

if __name__ == "__main__":
    setattr(erasures, PATIENCE, PATIENCE_MICROSECONDS)
    runpy.run_module("hivemem_memory", run_name="__main__", alter_sys=True)
