"""Memories, next to LangGraph's AsyncSqliteStore."""

from typing import Final

from benchmarks.memory.lab import open_lab
from benchmarks.memory.plots import PLOTS
from benchmarks.memory.rows import PEERS, ROWS
from benchmarks.memory.scenarios import SCENARIOS
from benchmarks.rows import STORES
from benchmarks.suite import Suite

MEMORY: Final = Suite(
    name="memory",
    title="Memories: Hivemem next to LangGraph",
    peer_name="LangGraph",
    stores=STORES,
    peers=PEERS,
    packages=("langgraph-checkpoint-sqlite", "nats-py", "pymongo"),
    rows=ROWS,
    plots=PLOTS,
    scenarios=SCENARIOS,
    open_lab=open_lab,
)
