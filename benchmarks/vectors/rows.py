"""The rows of the table of recall."""

from typing import Final

from benchmarks.rows import Row

STORES: Final = {"sqlite": "Hivemem, SQLite, Qdrant in process", "mongo": "Hivemem, MongoDB, Qdrant server"}
PEERS: Final = {"langgraph": "LangGraph AsyncSqliteStore", "bare": "the bare embedder, or an exact search"}

ROWS: Final = (
    Row("recall of 10 among 100,000 p50, its embedding included", "recall p50", marks=(15.0, 10.0)),
    Row("  on SQLite, with a Qdrant server", "recall p50", suffix="+server", marks=(10.0, 10.0)),
    Row("  p99 of the first", "recall p99"),
    Row("  p50 below one prefix", "recall below p50"),
    Row("8 at once: recalls", "recalls per second", better="more"),
    Row("recall@10 against an exact search", "recall@10", better="more", marks=(0.98, 0.98)),
    Row("indexing a backlog, embedded before: memories", "indexed per second", better="more", marks=(10_000, 10_000)),
    Row("indexing with the model itself: memories", "embedded per second", better="more", marks=(0.9, 0.9), times=True),
    Row("put until it is found p50", "found p50"),
    Row("memory.put p50 while nothing is indexed", "put p50 off"),
    Row("  with indexing", "put p50 on"),
)
