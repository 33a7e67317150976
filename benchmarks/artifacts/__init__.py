"""Files, next to a copy of them, to raw NATS and to the bare client of an object store."""

from typing import Final

from benchmarks.artifacts.lab import open_lab
from benchmarks.artifacts.plots import PLOTS
from benchmarks.artifacts.rows import PEERS, ROWS, STORES
from benchmarks.artifacts.scenarios import SCENARIOS
from benchmarks.suite import Suite

ARTIFACTS: Final = Suite(
    name="artifacts",
    title="Files: Hivemem next to what carries and keeps the same bytes",
    peer_name="the bare one",
    stores=STORES,
    peers=PEERS,
    packages=("minio", "nats-py", "pymongo"),
    rows=ROWS,
    plots=PLOTS,
    scenarios=SCENARIOS,
    open_lab=open_lab,
)
