"""The rows of the table of agents."""

from typing import Final

from benchmarks.rows import Row

PEERS: Final = {"langgraph": "LangGraph AsyncSqliteSaver"}

ROWS: Final = (
    Row("one agent: a cycle p50 (begin, propose, complete)", "cycle p50", marks=(4.0, 4.0)),
    Row("  the same with a plain NATS client", "cycle p50", suffix="-plain"),
    Row("  the same with `hivemem up`", "cycle p50", suffix="up"),
    Row("one agent: a cycle p99", "cycle p99"),
    Row("50 agents at once: cycles", "cycles per second", better="more"),
    Row("  the same with a plain NATS client", "cycles per second", suffix="-plain", better="more"),
    Row("  the same with `hivemem up`", "cycles per second", suffix="up", better="more"),
    Row("50 agents at once: a cycle p99", "cycle at once p99"),
    Row("1,000 runs of ten steps: steps", "steps per second", better="more", marks=(2_000, 2_000)),
    Row("  the same with a plain NATS client", "steps per second", suffix="-plain", better="more"),
    Row("  the same with `hivemem up`", "steps per second", suffix="up", better="more"),
    Row("a killed agent: from its first line until its next step", "resume", marks=(300, 300)),
    Row("  the same with `hivemem up`", "resume", suffix="up"),
    Row("  with the start of Python and the imports", "resume, started"),
    Row("  the same with `hivemem up`", "resume, started", suffix="up"),
)
