"""Draws the plots of the page, each as PNG and SVG."""

# matplotlib leaves the options of its methods untyped.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from benchmarks.results import Measured, Results
from benchmarks.rows import STORES
from benchmarks.suite import Plot

COLOURS: Final = ("#0b6e4f", "#3fa796", "#c8553d", "#e9a23b", "#7a6f9b", "#8a8a8a")
MARKER: Final = "o"
STYLE: Final[dict[Any, Any]] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "svg.hashsalt": "hivemem",
}

Shown = Mapping[str, tuple[str, str]]
"""The label and colour of each contender, by its name in the results."""


def shown_of(peers: Mapping[str, str], stores: Mapping[str, str] = STORES) -> Shown:
    names = {**stores, **peers}
    return {name: (label, COLOURS[place % len(COLOURS)]) for place, (name, label) in enumerate(names.items())}


def draw(plots: Mapping[str, Plot], results: Results, directory: Path) -> list[str]:
    """Draw the plots with measurements, and return their names."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    for name, plot in plots.items():
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(5.6 * plot.columns, 3.4), layout="constrained")
            axes: list[Axes] = [figure.add_subplot(1, plot.columns, place + 1) for place in range(plot.columns)]
            if not plot.draw(results, axes):
                continue
            figure.savefig(directory / f"{name}.png", dpi=144)
            figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        drawn.append(name)
    return drawn


def found(
    results: Results, measure: str, shown: Shown, names: Iterable[str] | None = None
) -> list[tuple[str, str, Measured]]:
    """Yield label, colour and measurement of each contender with a measurement."""
    chosen = shown if names is None else names
    return [(*shown[name], measured) for name in chosen if (measured := results.find(measure, name)) is not None]


def shares(axes: Axes, measurements: Sequence[tuple[str, str, Measured]]) -> None:
    """Draw the share of samples within a given time."""
    for label, colour, measured in measurements:
        ordered = sorted(measured.samples)
        shares = [(place + 1) / len(ordered) * 100 for place in range(len(ordered))]
        axes.plot(ordered, shares, color=colour, label=label)
    plain_numbers(axes)
    axes.set_xlabel("ms")
    axes.set_ylabel("% of all within this time")
    axes.set_ylim(0, 100)
    axes.grid(visible=True, axis="x", which="major", color="#dddddd")
    axes.legend(frameon=False, loc="lower right")


def plain_numbers(axes: Axes) -> None:
    """Set a logarithmic scale with labels such as 0.1, 1, 1,000."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def bars(axes: Axes, measurements: Sequence[tuple[str, str, Measured]], unit: str) -> None:
    """Draw medians of the rounds, on a logarithmic scale, with the lowest and the highest round as a line."""
    for place, (_, colour, measured) in enumerate(measurements):
        low, high = measured.spread
        axes.barh(place, measured.value, color=colour, height=0.6)
        axes.plot([low, high], [place, place], color="black", linewidth=1)
        axes.annotate(
            f"{measured.value:,.0f} {unit}",
            (high, place),
            xytext=(4, 0),
            textcoords="offset points",
            verticalalignment="center",
        )
    plain_numbers(axes)
    axes.set_xlim(1, max(measured.spread[1] for _, _, measured in measurements) * 6)
    axes.set_yticks(range(len(measurements)), [label for label, _, _ in measurements])
    axes.invert_yaxis()
