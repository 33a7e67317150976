"""The results: one value for each round, to show the spread, and the machine of the run."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.timing import median

SAMPLES_KEPT: Final = 2_000


@dataclass(frozen=True)
class Measured:
    """A measurement. `of` names its contender; `samples` are single timings, thinned out, for the plots."""

    measure: str
    of: str
    unit: str
    rounds: tuple[float, ...]
    samples: tuple[float, ...] = ()

    @property
    def value(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.rounds), max(self.rounds)


@dataclass
class Results:
    quick: bool
    machine: dict[str, str] = field(default_factory=dict[str, str])
    measured: list[Measured] = field(default_factory=list[Measured])
    notes: list[str] = field(default_factory=list[str])

    def add(self, measure: str, of: str, unit: str, rounds: Sequence[float], samples: Sequence[float] = ()) -> None:
        self.measured.append(Measured(measure, of, unit, tuple(rounds), tuple(_thinned(samples))))

    def find(self, measure: str, of: str) -> Measured | None:
        return next((found for found in self.measured if (found.measure, found.of) == (measure, of)), None)

    def value(self, measure: str, of: str) -> float | None:
        found = self.find(measure, of)
        return None if found is None else found.value

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> "Results":
        data: dict[str, Any] = json.loads(file.read_text())
        measured = [
            Measured(one["measure"], one["of"], one["unit"], tuple(one["rounds"]), tuple(one["samples"]))
            for one in data["measured"]
        ]
        return cls(data["quick"], data["machine"], measured, data["notes"])


def _thinned(samples: Sequence[float]) -> list[float]:
    """Sort the samples and keep every n-th, which preserves the percentiles."""
    ordered = sorted(samples)
    step = max(1, len(ordered) // SAMPLES_KEPT)
    return [round(value, 4) for value in ordered[::step]]
