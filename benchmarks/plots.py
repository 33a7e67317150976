"""The plots of the page, each as PNG and SVG."""

# matplotlib leaves the options of its methods untyped.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from benchmarks.marks import PEERS
from benchmarks.results import Measured, Results

SHOWN: Final = {
    "sqlite": ("Hivemem, SQLite", "#0b6e4f"),
    "mongo": ("Hivemem, MongoDB", "#3fa796"),
    "adk-sqlite": ("ADK SqliteSessionService", "#c8553d"),
    "adk-database": ("ADK DatabaseSessionService", "#e9a23b"),
}
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


def draw(results: Results, directory: Path) -> list[str]:
    """The names of the plots for which something was measured."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    for name, (columns, fill) in _PLOTS.items():
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(5.6 * columns, 3.4), layout="constrained")
            axes: list[Axes] = [figure.add_subplot(1, columns, place + 1) for place in range(columns)]
            if not fill(results, axes):
                continue
            figure.savefig(directory / f"{name}.png", dpi=144)
            figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        drawn.append(name)
    return drawn


def _found(results: Results, measure: str, names: Iterable[str] = SHOWN) -> list[tuple[str, str, Measured]]:
    """Label, colour and measurement of those who have one."""
    return [(*SHOWN[name], measured) for name in names if (measured := results.find(measure, name)) is not None]


def _one_agent(results: Results, axes: Sequence[Axes]) -> bool:
    found = _found(results, "append p50")
    _shares(axes[0], found)
    axes[0].set_title("One agent: how long an append takes")
    return bool(found)


def _sessions(results: Results, axes: Sequence[Axes]) -> bool:
    rates, tails = _found(results, "appends per second"), _found(results, "append at once p99")
    _bars(axes[0], rates, "/s")
    axes[0].set_title("50 sessions at once: appends per second")
    _bars(axes[1], tails, "ms")
    axes[1].set_title("… and their p99, ms")
    axes[1].set_yticklabels([])
    return bool(rates)


def _history(results: Results, axes: Sequence[Axes]) -> bool:
    some = False
    for place, (measure, title) in enumerate(
        (
            ("append, history of ", "Append to a session, p50"),
            ("get, history of ", "Get with the 50 newest events, p50"),
        )
    ):
        lengths = sorted(
            {int(m.measure.removeprefix(measure)) for m in results.measured if m.measure.startswith(measure)}
        )
        for name, (label, colour) in SHOWN.items():
            points = [(n, value) for n in lengths if (value := results.value(f"{measure}{n}", name)) is not None]
            if points:
                some = True
                axes[place].plot(*zip(*points, strict=True), marker=MARKER, color=colour, label=label)
        _plain_numbers(axes[place])
        axes[place].set_ylim(bottom=0)
        axes[place].set_xlabel("events in the session")
        axes[place].set_ylabel("ms")
        axes[place].set_title(title)
    if some:
        axes[0].legend(frameon=False)
    return some


def _durable(results: Results, axes: Sequence[Axes]) -> bool:
    rates = _found(results, "durable per second")
    if rates:
        _bars(axes[0], rates + _found(results, "appends per second", PEERS), "/s")
        axes[0].set_title("Durable commands (ADK: appends) per second")
    return bool(rates)


def _feed(results: Results, axes: Sequence[Axes]) -> bool:
    found = _found(results, "commit to subscriber p50")
    _shares(axes[0], found)
    axes[0].set_title("From the commit to a subscriber")
    return bool(found)


def _shares(axes: Axes, found: Sequence[tuple[str, str, Measured]]) -> None:
    """Which share of the samples took at most so long."""
    for label, colour, measured in found:
        ordered = sorted(measured.samples)
        shares = [(place + 1) / len(ordered) * 100 for place in range(len(ordered))]
        axes.plot(ordered, shares, color=colour, label=label)
    _plain_numbers(axes)
    axes.set_xlabel("ms")
    axes.set_ylabel("% of all at most so long")
    axes.set_ylim(0, 100)
    axes.grid(visible=True, axis="x", which="major", color="#dddddd")
    axes.legend(frameon=False, loc="lower right")


def _plain_numbers(axes: Axes) -> None:
    """A logarithmic scale that says 0.1, 1, 1,000."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _bars(axes: Axes, found: Sequence[tuple[str, str, Measured]], unit: str) -> None:
    """Medians of the rounds, on a logarithmic scale, with the lowest and the highest round as a line."""
    for place, (_, colour, measured) in enumerate(found):
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
    _plain_numbers(axes)
    axes.set_xlim(1, max(measured.spread[1] for _, _, measured in found) * 6)
    axes.set_yticks(range(len(found)), [label for label, _, _ in found])
    axes.invert_yaxis()


_PLOTS: Final[dict[str, tuple[int, Callable[[Results, Sequence[Axes]], bool]]]] = {
    "one-agent": (1, _one_agent),
    "sessions": (2, _sessions),
    "history": (2, _history),
    "durable": (1, _durable),
    "feed": (1, _feed),
}
