"""The rows of the comparison: a measure, its contenders, and the mark to reach."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.results import Measured, Results

STORES: Final = {"sqlite": "Hivemem, SQLite", "mongo": "Hivemem, MongoDB"}


@dataclass(frozen=True)
class Row:
    """A row. `marks` are the bounds for the stores, in the unit of the measure or, with `times`, in times the best
    peer."""

    title: str
    measure: str
    suffix: str = ""
    """The part of the contender's name that says how it calls Hivemem."""

    better: Literal["less", "more"] = "less"
    marks: tuple[float, float] | None = None
    times: bool = False
    against: str | None = None
    """The measure of the peers to compare with, if its name differs."""

    def of(self, results: Results, store: str) -> Measured | None:
        name = "up" if self.suffix == "up" else f"{store}{self.suffix}"
        return None if self.suffix == "up" and store != "sqlite" else results.find(self.measure, name)

    def of_peer(self, results: Results, peer: str) -> Measured | None:
        return results.find(self.against or self.measure, peer)

    def ratio(self, results: Results, store: str, peers: Iterable[str]) -> float | None:
        """Return how many times better the value is than the best peer."""
        mine = self.of(results, store)
        found = [peer.value for name in peers if (peer := self.of_peer(results, name)) is not None]
        if mine is None or not found or mine.unit == "x":
            return None
        return mine.value / max(found) if self.better == "more" else min(found) / mine.value

    def reached(self, results: Results, store: str, peers: Iterable[str]) -> bool | None:
        mine = self.of(results, store)
        if self.marks is None or mine is None:
            return None
        mark = self.marks[list(STORES).index(store)]
        value = self.ratio(results, store, peers) if self.times else mine.value
        if value is None:
            return None
        return value >= mark if self.better == "more" else value <= mark

    def mark(self, results: Results, peer_name: str) -> str:
        if self.marks is None:
            return ""
        shown = " / ".join(dict.fromkeys(f"{mark:,g}" for mark in self.marks))
        sign = "≥" if self.better == "more" else "≤"
        measured = next((found for store in STORES if (found := self.of(results, store))), None)
        unit = f"x {peer_name}" if self.times else measured.unit if measured else ""
        return f"{sign} {shown} {unit}"
