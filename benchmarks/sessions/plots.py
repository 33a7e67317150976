"""The plots of sessions."""

# matplotlib leaves the options of its methods untyped.
# pyright: reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from benchmarks.plotting import MARKER, bars, found, plain_numbers, shares, shown_of
from benchmarks.results import Results
from benchmarks.sessions.rows import PEERS
from benchmarks.suite import Plot

SHOWN: Final = shown_of(PEERS)


def _one_agent(results: Results, axes: Sequence[Axes]) -> bool:
    measured = found(results, "append p50", SHOWN)
    shares(axes[0], measured)
    axes[0].set_title("One agent: how long an append takes")
    return bool(measured)


def _sessions(results: Results, axes: Sequence[Axes]) -> bool:
    rates, tails = found(results, "appends per second", SHOWN), found(results, "append at once p99", SHOWN)
    bars(axes[0], rates, "/s")
    axes[0].set_title("50 sessions at once: appends per second")
    bars(axes[1], tails, "ms")
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
        plain_numbers(axes[place])
        axes[place].set_ylim(bottom=0)
        axes[place].set_xlabel("events in the session")
        axes[place].set_ylabel("ms")
        axes[place].set_title(title)
    if some:
        axes[0].legend(frameon=False)
    return some


def _durable(results: Results, axes: Sequence[Axes]) -> bool:
    rates = found(results, "durable per second", SHOWN)
    if rates:
        bars(axes[0], rates + found(results, "appends per second", SHOWN, PEERS), "/s")
        axes[0].set_title("Durable commands (ADK: appends) per second")
    return bool(rates)


def _feed(results: Results, axes: Sequence[Axes]) -> bool:
    measured = found(results, "commit to subscriber p50", SHOWN)
    shares(axes[0], measured)
    axes[0].set_title("From the commit to a subscriber")
    return bool(measured)


PLOTS: Final[Mapping[str, Plot]] = {
    "one-agent": Plot(1, _one_agent, "One agent that waits for each append: share of answers within a given time"),
    "sessions": Plot(2, _sessions, "Fifty sessions at once: appends per second and their 99th percentile"),
    "history": Plot(2, _history, "Appending to a session and reading its newest events, by the length of its history"),
    "durable": Plot(1, _durable, "Durable commands carried out per second by one worker process"),
    "feed": Plot(1, _feed, "From the commit to a subscriber in another process"),
}
