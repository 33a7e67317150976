"""Agents and their cycles, next to LangGraph's AsyncSqliteSaver."""

from typing import Final

from benchmarks.agents.lab import open_lab
from benchmarks.agents.plots import PLOTS
from benchmarks.agents.rows import PEERS, ROWS
from benchmarks.agents.scenarios import SCENARIOS
from benchmarks.rows import STORES
from benchmarks.suite import Suite

AGENTS: Final = Suite(
    name="agents",
    title="Agents: Hivemem next to LangGraph's checkpointer",
    peer_name="LangGraph",
    stores=STORES,
    peers=PEERS,
    packages=("langgraph-checkpoint-sqlite", "nats-py", "pymongo"),
    rows=ROWS,
    plots=PLOTS,
    scenarios=SCENARIOS,
    open_lab=open_lab,
)
