"""Writes the measured part of a suite in docs/benchmarks.md, between two markers, and draws the plots that it shows."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.plotting import draw
from benchmarks.results import Results
from benchmarks.suite import Suite
from benchmarks.table import markdown


def publish(suite: Suite, results: Results, docs: Path) -> None:
    begin = f"<!-- measured {suite.name}: written by `make bench ARGS=--publish` -->"
    end = f"<!-- end of the measurements of {suite.name} -->"
    plots = draw(suite.plots, results, docs / "benchmarks")
    replace_part(docs / "benchmarks.md", begin, end, _measured(suite, results, plots))


def replace_part(page: Path, begin: str, end: str, lines: Sequence[str]) -> None:
    """Put the lines between two markers of a page. Raises `ValueError` if the page lacks one of them."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{page}: it needs the markers {begin} and {end}")
    page.write_text("\n".join([before + begin, "", *lines, end + after]), encoding="utf-8")


def _measured(suite: Suite, results: Results, plots: list[str]) -> list[str]:
    lines: list[str] = []
    if results.quick:
        lines += ["*A quick run, which only shows that it works: `make bench ARGS=--publish` measures properly.*", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in results.machine.items()), ""]
    lines += [markdown(suite, results), ""]
    lines += [f"- {note}" for note in results.notes] + ([""] if results.notes else [])
    for name in plots:
        lines += [f"![{suite.plots[name].caption}](benchmarks/{name}.svg)", ""]
    return lines
