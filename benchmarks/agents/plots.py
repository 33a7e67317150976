"""The plots of agents."""

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from benchmarks.agents.rows import PEERS
from benchmarks.plotting import bars, found, shares, shown_of
from benchmarks.results import Results
from benchmarks.suite import Plot

SHOWN: Final = shown_of(PEERS)


def _cycles(results: Results, axes: Sequence[Axes]) -> bool:
    one, many = found(results, "cycle p50", SHOWN), found(results, "cycles per second", SHOWN)
    if one:
        shares(axes[0], one)
    axes[0].set_title("One agent: how long a cycle takes")
    if many:
        bars(axes[1], many, "/s")
    axes[1].set_title("50 agents at once: cycles per second")
    return bool(one or many)


PLOTS: Final[Mapping[str, Plot]] = {
    "agents-cycles": Plot(2, _cycles, "Cycles of begin, propose and complete: one agent, and fifty at once"),
}
