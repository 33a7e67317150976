"""The plot of the ranking, one set beside the other."""

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from benchmarks.plotting import COLOURS
from benchmarks.quality.ways import PEERS, TITLES
from benchmarks.results import Results
from benchmarks.suite import Plot

HEADLINE: Final = "nDCG@10"


def plots(datasets: Sequence[str]) -> Mapping[str, Plot]:
    def ranking(results: Results, axes: Sequence[Axes]) -> bool:
        for axis, dataset in zip(axes, datasets, strict=True):
            _ranking(results, axis, dataset)
        return True

    return {"ranking": Plot(len(datasets), ranking, "nDCG@10, averaged over the categories of questions")}


def _ranking(results: Results, axes: Axes, dataset: str) -> None:
    values = {name: results.value(f"{dataset}: {HEADLINE}", name) for name in TITLES}
    shown = [(TITLES[name], value, COLOURS[5 if name in PEERS else 0]) for name, value in values.items() if value]
    for place, (_, value, colour) in enumerate(shown):
        axes.barh(place, value, color=colour, height=0.6)
        axes.annotate(f"{value:.1f}", (value, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(shown)), [title for title, _, _ in shown])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_title(f"{dataset.partition(',')[0]}: {HEADLINE}")
