"""The plots of recall."""

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from benchmarks.plotting import bars, found, shares, shown_of
from benchmarks.results import Results
from benchmarks.suite import Plot
from benchmarks.vectors.rows import PEERS, STORES

SHOWN: Final = shown_of(PEERS, STORES)


def _recall(results: Results, axes: Sequence[Axes]) -> bool:
    timed, rates = found(results, "recall p50", SHOWN), found(results, "recalls per second", SHOWN)
    if timed:
        shares(axes[0], timed)
    if rates:
        bars(axes[1], rates, "/s")
    axes[0].set_title("One agent: how long a recall takes")
    axes[1].set_title("Eight at once: recalls per second")
    return bool(timed or rates)


PLOTS: Final[Mapping[str, Plot]] = {
    "vectors-recall": Plot(2, _recall, "Recall of ten memories, the question's embedding included"),
}
