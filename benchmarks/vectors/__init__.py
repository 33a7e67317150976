"""Recall, next to LangGraph's store with the same texts and the same model."""

from typing import Final

from benchmarks.suite import Suite
from benchmarks.vectors.lab import open_lab
from benchmarks.vectors.plots import PLOTS
from benchmarks.vectors.rows import PEERS, ROWS, STORES
from benchmarks.vectors.scenarios import SCENARIOS

VECTORS: Final = Suite(
    name="vectors",
    title="Recall: Hivemem next to LangGraph",
    peer_name="the peer",
    stores=STORES,
    peers=PEERS,
    packages=("qdrant-edge-py", "qdrant-client", "langgraph-checkpoint-sqlite", "sqlite-vec", "onnxruntime", "nats-py"),
    rows=ROWS,
    plots=PLOTS,
    scenarios=SCENARIOS,
    open_lab=open_lab,
)
