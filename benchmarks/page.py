"""Writes the measured part of docs/benchmarks.md, between two markers, and draws the plots that it shows."""

from pathlib import Path
from typing import Final

from benchmarks.plots import draw
from benchmarks.results import Results
from benchmarks.table import markdown

BEGIN: Final = "<!-- measured: written by `make bench ARGS=--publish` -->"
END: Final = "<!-- end of what was measured -->"
CAPTIONS: Final = {
    "one-agent": "One agent that waits for each append: which share took at most so long",
    "sessions": "Fifty sessions at once: appends per second and their 99th percentile",
    "history": "Appending to a session and reading its newest events, by the length of its history",
    "durable": "Durable commands carried out per second by one worker process",
    "feed": "From the commit to a subscriber in another process",
}


def publish(results: Results, docs: Path) -> None:
    page = docs / "benchmarks.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page}: the markers of the measured part are gone")
    plots = draw(results, docs / "benchmarks")
    page.write_text("\n".join([before + BEGIN, "", *_measured(results, plots), END + after]), encoding="utf-8")


def _measured(results: Results, plots: list[str]) -> list[str]:
    lines: list[str] = []
    if results.quick:
        lines += ["*A quick run, which only shows that it works: `make bench ARGS=--publish` measures properly.*", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in results.machine.items()), ""]
    lines += [markdown(results), ""]
    lines += [f"- {note}" for note in results.notes] + ([""] if results.notes else [])
    for name in plots:
        lines += [f"![{CAPTIONS[name]}](benchmarks/{name}.svg)", ""]
    return lines
