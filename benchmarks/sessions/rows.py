"""The rows of the table of sessions."""

from typing import Final

from benchmarks.rows import Row

PEERS: Final = {
    "adk-sqlite": "ADK SqliteSessionService",
    "adk-database": "ADK DatabaseSessionService",
}

ROWS: Final = (
    Row("one agent: append p50", "append p50", marks=(0.8, 2.0)),
    Row("  the same with a plain NATS client", "append p50", suffix="-plain"),
    Row("  the same with `hivemem up`", "append p50", suffix="up"),
    Row("one agent: append p99", "append p99"),
    Row("append to a long session, against a new one", "append, long to new", marks=(1.2, 1.2)),
    Row("50 sessions at once: appends", "appends per second", better="more", marks=(20, 20), times=True),
    Row("  the same with a plain NATS client", "appends per second", suffix="-plain", better="more"),
    Row("  the same with `hivemem up`", "appends per second", suffix="up", better="more"),
    Row("50 sessions at once: append p99", "append at once p99", marks=(25, 25)),
    Row("  the same with a plain NATS client", "append at once p99", suffix="-plain"),
    Row("  the same with `hivemem up`", "append at once p99", suffix="up"),
    Row(
        "durable: a backlog, committed",
        "durable per second",
        better="more",
        marks=(20_000, 20_000),
        against="appends per second",
    ),
    Row("  the same, until announced", "durable, announced per second", better="more", against="appends per second"),
    Row(
        "  published and committed at once",
        "durable, published meanwhile",
        better="more",
        against="appends per second",
    ),
    Row("  until announced, NATS syncs each batch", "synced, announced per second", better="more"),
    Row("    against NATS that does not", "synced, announced, to not synced", better="more"),
    Row(
        "a lost feed told again, NATS syncs each batch",
        "synced, told again per second",
        better="more",
        marks=(10_000, 10_000),
    ),
    Row("    against NATS that does not", "synced, told again, to not synced", better="more"),
    Row("commit to subscriber p50", "commit to subscriber p50", marks=(2.0, 2.0)),
    Row("commit to subscriber p99", "commit to subscriber p99"),
    Row("get with the 50 newest events of a long session p50", "get p50", marks=(1.5, 1.5)),
    Row("`hivemem up`: ready", "ready", marks=(3.0, 3.0)),
)
