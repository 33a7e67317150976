"""The plots of files."""

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from benchmarks.artifacts.rows import PEERS, STORES
from benchmarks.plotting import bars, found, shown_of
from benchmarks.results import Results
from benchmarks.suite import Plot

SHOWN: Final = shown_of(PEERS, STORES)


def _large(results: Results, axes: Sequence[Axes]) -> bool:
    some = False
    for place, (measure, title) in enumerate((("upload", "up"), ("download", "down"))):
        measured = found(results, measure, SHOWN)
        if measured:
            some = True
            bars(axes[place], measured, "MB/s")
        axes[place].set_title(f"A large file {title}: MB/s")
        if place:
            axes[place].set_yticklabels([])
    return some


PLOTS: Final[Mapping[str, Plot]] = {
    "artifacts-large": Plot(2, _large, "A large file over the bus, next to raw NATS and to a copy: MB per second"),
}
