"""The plots of memories."""

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from benchmarks.memory.rows import PEERS
from benchmarks.plotting import bars, found, shares, shown_of
from benchmarks.results import Results
from benchmarks.suite import Plot

SHOWN: Final = shown_of(PEERS)


def _one_agent(results: Results, axes: Sequence[Axes]) -> bool:
    some = False
    for place, (measure, title) in enumerate((("put p50", "a put"), ("get p50", "a get"))):
        measured = found(results, measure, SHOWN)
        if measured:
            some = True
            shares(axes[place], measured)
        axes[place].set_title(f"One agent: how long {title} takes")
    return some


def _at_once(results: Results, axes: Sequence[Axes]) -> bool:
    some = False
    measures = (("puts per second", "puts"), ("gets per second", "gets"), ("batched per second", "put in batches"))
    for place, (measure, title) in enumerate(measures):
        measured = found(results, measure, SHOWN)
        if measured:
            some = True
            bars(axes[place], measured, "/s")
        axes[place].set_title(f"Per second: {title}")
        if place:
            axes[place].set_yticklabels([])
    return some


PLOTS: Final[Mapping[str, Plot]] = {
    "memory-one-agent": Plot(
        2, _one_agent, "One agent that waits for each answer: share of answers within a given time"
    ),
    "memory-at-once": Plot(3, _at_once, "Fifty agents at once, and batches of a thousand: memories per second"),
}
