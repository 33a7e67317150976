"""The rows of the table of memories."""

from typing import Final

from benchmarks.rows import Row

PEERS: Final = {"langgraph": "LangGraph AsyncSqliteStore"}

ROWS: Final = (
    Row("one agent: put p50", "put p50", marks=(1.0, 1.0)),
    Row("  the same with a plain NATS client", "put p50", suffix="-plain"),
    Row("  the same with `hivemem up`", "put p50", suffix="up"),
    Row("one agent: put p99", "put p99"),
    Row("one agent: get p50", "get p50", marks=(0.6, 0.6)),
    Row("  the same with a plain NATS client", "get p50", suffix="-plain"),
    Row("  the same with `hivemem up`", "get p50", suffix="up"),
    Row("50 at once: puts of new memories", "puts per second", better="more", marks=(6_000, 6_000)),
    Row("  the same with a plain NATS client", "puts per second", suffix="-plain", better="more"),
    Row("  the same with `hivemem up`", "puts per second", suffix="up", better="more"),
    Row("50 at once: puts on memories that are there", "updates per second", better="more", marks=(6_000, 6_000)),
    Row("  the same with a plain NATS client", "updates per second", suffix="-plain", better="more"),
    Row("50 at once: put p99", "put at once p99"),
    Row("50 at once: gets", "gets per second", better="more", marks=(10_000, 10_000)),
    Row("  the same with a plain NATS client", "gets per second", suffix="-plain", better="more"),
    Row("put_batch, memories", "batched per second", better="more", marks=(40_000, 40_000)),
    Row("  the same with a plain NATS client", "batched per second", suffix="-plain", better="more"),
    Row("list 100 by prefix among a million p50", "list p50", marks=(5.0, 5.0)),
    Row("history of 10 versions p50", "history p50", marks=(2.0, 2.0)),
    Row("get as of a moment, among 10,000 versions p50", "get as of p50", marks=(2.0, 2.0)),
    Row("snapshot of 10,000, all pages", "snapshot", marks=(200, 200)),
)
