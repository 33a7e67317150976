"""The comparison as a table, for a terminal and for a page."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.results import Measured, Results
from benchmarks.rows import STORES, Row
from benchmarks.suite import Suite


def headings(suite: Suite) -> tuple[str, ...]:
    return ("measure", *suite.stores.values(), *suite.peers.values(), "ratio", "mark", "reached")


def rows(suite: Suite, results: Results) -> Iterator[tuple[str, ...]]:
    for row in suite.rows:
        mine = [row.of(results, store) for store in STORES]
        if any(mine):
            yield (
                row.title,
                *map(shown, mine),
                *(shown(row.of_peer(results, peer)) for peer in suite.peers),
                _ratios(row, suite, results),
                row.mark(results, suite.peer_name),
                _reached(row, suite, results),
            )


def shown(measured: Measured | None) -> str:
    """Return the median of the rounds, with the lowest and the highest."""
    if measured is None:
        return "-"
    low, high = measured.spread
    if len(measured.rounds) == 1:
        return f"{number(measured.value)} {measured.unit}"
    return f"{number(measured.value)} {measured.unit} ({number(low)}-{number(high)})"


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ratios(row: Row, suite: Suite, results: Results) -> str:
    """Return for each measured store how many times better it is than the best peer."""
    ratios = [row.ratio(results, store, suite.peers) for store in STORES]
    return " / ".join("-" if ratio is None else f"{number(ratio)}x" for ratio in ratios) if any(ratios) else ""


def _reached(row: Row, suite: Suite, results: Results) -> str:
    words = [{None: "-", True: "yes", False: "no"}[row.reached(results, store, suite.peers)] for store in STORES]
    if words == ["-", "-"]:
        return ""
    return words[0] if row.of(results, "mongo") is None or words[0] == words[1] else " / ".join(words)


def print_table(suite: Suite, results: Results, console: Console) -> None:
    table = Table(title=suite.title, caption="median of the rounds (lowest-highest)")
    for place, heading in enumerate(headings(suite)):
        table.add_column(heading, justify="left" if place == 0 else "right", overflow="fold")
    for cells in rows(suite, results):
        colour = "red" if "no" in cells[-1] else "green" if "yes" in cells[-1] else ""
        table.add_row(*cells[:-1], Text(cells[-1], style=colour))
    for name, text in results.machine.items():
        console.print(Text(f"{name:>20}  {text}"))
    console.print(table)
    for note in results.notes:
        console.print(Text(f"note: {note}"))


def markdown(suite: Suite, results: Results) -> str:
    names = headings(suite)
    lines = [f"| {' | '.join(names)} |", "|---" + "|--:" * (len(names) - 1) + "|"]
    for cells in rows(suite, results):
        title = cells[0].replace("  ", "&nbsp;&nbsp;", 1) if cells[0].startswith("  ") else cells[0]
        reached = cells[-1].replace("yes", "**yes**")
        lines.append(f"| {' | '.join((title, *cells[1:-1], reached))} |")
    return "\n".join(lines)
