"""Shows the figures of a run, writes them into docs/recall-quality.md, and compares them with the published ones."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.page import replace_part
from benchmarks.plotting import draw
from benchmarks.quality.plots import plots
from benchmarks.quality.scoring import TOKENS
from benchmarks.quality.ways import PEERS, TITLES
from benchmarks.results import Results

BEGIN: Final = "<!-- measured: written by `make quality DATA=folder ARGS=--publish` -->"
END: Final = "<!-- end of the measurements -->"
TOLERATED_POINTS: Final = 1.0
MODEL: Final = "embedder"
"""The line of the machine's description that names the model."""

_OF_CATEGORY: Final = " of "


def datasets(results: Results) -> list[str]:
    return list(dict.fromkeys(one.measure.partition(": ")[0] for one in results.measured))


def tables(results: Results) -> Iterator[tuple[str, Sequence[Sequence[str]]]]:
    """Yield the title and the lines of each table: all figures of a set, then its ranking by category."""
    for dataset in datasets(results):
        names = [one.measure.partition(": ")[2] for one in results.measured if one.measure.startswith(f"{dataset}: ")]
        figures = [name for name in dict.fromkeys(names) if _OF_CATEGORY not in name]
        categories = [name for name in dict.fromkeys(names) if _OF_CATEGORY in name]
        yield dataset, _lines(results, dataset, figures, figures)
        headings = [name.partition(_OF_CATEGORY)[2] for name in categories]
        yield f"{dataset}: nDCG@10 by category", _lines(results, dataset, categories, headings)


def _lines(results: Results, dataset: str, names: Sequence[str], headings: Sequence[str]) -> list[list[str]]:
    lines = [["", *headings]]
    for contender, title in TITLES.items():
        values = [results.value(f"{dataset}: {name}", contender) for name in names]
        if any(value is not None for value in values):
            lines.append([title, *map(_shown, names, values)])
    return lines


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if name == TOKENS else f"{value:.1f}"


def show(results: Results, console: Console) -> None:
    for title, (headings, *lines) in tables(results):
        table = Table(title=title)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left")
        for line in lines:
            table.add_row(*line)
        console.print(table)


def publish(results: Results, page: Path) -> None:
    """Write the tables and the plot into the page, and the figures beside the plot for later comparisons."""
    folder = page.with_suffix("")
    drawn = plots(datasets(results))
    names = draw(drawn, results, folder)
    lines = ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in results.machine.items()), ""]
    for title, (headings, *rows) in tables(results):
        lines += [f"**{title}**", "", _row(headings), "|---" + "|--:" * (len(headings) - 1) + "|"]
        lines += [*map(_row, rows), ""]
    for name in names:
        lines += [f"![{drawn[name].caption}]({folder.name}/{name}.svg)", ""]
    replace_part(page, BEGIN, END, lines)
    results.write(published(page))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def published(page: Path) -> Path:
    return page.with_suffix("") / "figures.json"


def compare(results: Results, before: Results, console: Console) -> bool:
    """Print the published figures that this run missed by more than a point, and return whether there are none.

    Compared are Hivemem's own figures in percent over all categories, of the same sets with the same embedder.
    """
    if results.machine[MODEL] != before.machine[MODEL]:
        console.print(f"not compared: the published figures are those of {before.machine[MODEL]}", highlight=False)
        return True
    pairs = [
        (one, now)
        for one in before.measured
        if one.unit == "%" and one.of not in PEERS and _OF_CATEGORY not in one.measure
        if (now := results.value(one.measure, one.of)) is not None
    ]
    missed = [(one, now) for one, now in pairs if now < one.value - TOLERATED_POINTS]
    for one, now in missed:
        title = TITLES.get(one.of, one.of)
        console.print(f"worse: {one.measure}, {title}: {now:.1f}, published {one.value:.1f}", style="red")
    console.print(f"{len(pairs)} figures compared with the published ones, {len(missed)} worse", highlight=False)
    return not missed
