"""The rows of the comparison: what is shown of whom, against whom, and the mark that it has to reach."""

from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.results import Measured, Results

STORES: Final = ("sqlite", "mongo")
PEERS: Final = ("adk-sqlite", "adk-database")


@dataclass(frozen=True)
class Row:
    """`marks` are the bounds for the stores, in the unit of the measure or, with `times`, in times the best peer."""

    title: str
    measure: str
    suffix: str = ""
    """Of the contender's name: which way in."""

    better: Literal["less", "more"] = "less"
    marks: tuple[float, float] | None = None
    times: bool = False
    against: str | None = None
    """What of the peers stands next to it, where that is called otherwise."""

    def of(self, results: Results, store: str) -> Measured | None:
        name = "up" if self.suffix == "up" else f"{store}{self.suffix}"
        return None if self.suffix == "up" and store != "sqlite" else results.find(self.measure, name)

    def of_peer(self, results: Results, peer: str) -> Measured | None:
        return results.find(self.against or self.measure, peer)

    def ratio(self, results: Results, store: str) -> float | None:
        """How many times better than the better one of the peers."""
        mine = self.of(results, store)
        found = [peer.value for name in PEERS if (peer := self.of_peer(results, name)) is not None]
        if mine is None or not found or mine.unit == "x":
            return None
        return mine.value / max(found) if self.better == "more" else min(found) / mine.value

    def reached(self, results: Results, store: str) -> bool | None:
        mine = self.of(results, store)
        if self.marks is None or mine is None:
            return None
        mark = self.marks[STORES.index(store)]
        value = self.ratio(results, store) if self.times else mine.value
        if value is None:
            return None
        return value >= mark if self.better == "more" else value <= mark

    def mark(self, results: Results) -> str:
        if self.marks is None:
            return ""
        shown = " / ".join(dict.fromkeys(f"{mark:,g}" for mark in self.marks))
        sign = "≥" if self.better == "more" else "≤"
        measured = next((found for store in STORES if (found := self.of(results, store))), None)
        unit = "x ADK" if self.times else measured.unit if measured else ""
        return f"{sign} {shown} {unit}"


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
    Row("commit to subscriber p50", "commit to subscriber p50", marks=(2.0, 2.0)),
    Row("commit to subscriber p99", "commit to subscriber p99"),
    Row("get with the 50 newest events of a long session p50", "get p50", marks=(1.5, 1.5)),
    Row("`hivemem up`: ready", "ready", marks=(3.0, 3.0)),
)
