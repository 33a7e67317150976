"""`python -m benchmarks`: measures, prints the tables, keeps the raw results; see docs/benchmarks.md."""

import asyncio
import gc
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

from benchmarks.agents import AGENTS
from benchmarks.artifacts import ARTIFACTS
from benchmarks.fleets import Store
from benchmarks.machine import Company, describe
from benchmarks.memory import MEMORY
from benchmarks.page import publish as write_page
from benchmarks.results import Results
from benchmarks.sessions import SESSIONS
from benchmarks.suite import Suite
from benchmarks.table import print_table
from benchmarks.vectors import VECTORS

SUITES: Final = {suite.name: suite for suite in (SESSIONS, MEMORY, ARTIFACTS, VECTORS, AGENTS)}
ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "benchmarks" / "results"
DOCS: Final = ROOT / "docs"
WIDTH: Final = 190
"""The width of a table that is written into a file."""

LONGEST_SECONDS: Final = 900
"""The time limit of a suite, even if a part hangs."""

What = Annotated[
    list[str] | None,
    typer.Argument(
        help="; ".join(f"{suite.name}: {', '.join(suite.scenarios)}" for suite in SUITES.values())
        + ". A suite, or some of its scenarios as SUITE.SCENARIO; everything if none."
    ),
]


def main(
    what: What = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small and short: does it work?")] = False,
    store: Annotated[Literal["sqlite", "mongo", "both"], typer.Option(help="Which of Hivemem's stores.")] = "both",
    out: Annotated[Path, typer.Option(help="Where raw results and the data of the run go: the disk counts.")] = OUT,
    publish: Annotated[bool, typer.Option("--publish", help="Write docs/benchmarks.md and its plots anew.")] = False,
    earlier: Annotated[
        Path | None,
        typer.Option("--results", help="Show, or publish, an earlier run of one suite instead of a new one."),
    ] = None,
) -> None:
    """Measure Hivemem next to its peers: the same work, the same disk, by turns."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    stores: tuple[Store, ...] = ("sqlite", "mongo") if store == "both" else (store,)
    for suite, scenarios in chosen(what or list(SUITES)).items():
        if earlier is None:
            results = Results(quick)
            run(SUITES[suite], scenarios, stores, out, results, console)
        else:
            results = Results.read(earlier)
        print_table(SUITES[suite], results, console)
        if publish:
            write_page(SUITES[suite], results, DOCS)
            console.print(f"docs/benchmarks.md has the {suite} of this run", highlight=False)


def chosen(what: list[str]) -> dict[str, list[str]]:
    """Return the scenarios to run, by suite."""
    found: dict[str, list[str]] = {}
    for name in what:
        suite, _, scenario = name.partition(".")
        if suite not in SUITES or (scenario and scenario not in SUITES[suite].scenarios):
            raise typer.BadParameter(f"{name!r} is no suite, nor SUITE.SCENARIO; see --help")
        found.setdefault(suite, []).extend([scenario] if scenario else SUITES[suite].scenarios)
    return found


def run(
    suite: Suite, scenarios: list[str], stores: tuple[Store, ...], out: Path, results: Results, console: Console
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="data-", dir=out.resolve()))
    try:
        company = Company()
        asyncio.run(measure(suite, results, scenarios, stores, directory, console))
        results.machine["busy with other work"] = company.cores()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    file = out / f"{suite.name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    results.write(file)
    console.print(f"raw results: {file}", highlight=False)


async def measure(
    suite: Suite,
    results: Results,
    scenarios: list[str],
    stores: tuple[Store, ...],
    directory: Path,
    console: Console,
) -> None:
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    async with asyncio.timeout(LONGEST_SECONDS), suite.open_lab(directory, stores, results) as lab:
        servers = {name: text for fleet in lab.fleets.values() for name, text in fleet.servers.items()}
        results.machine = describe(directory, servers, suite.packages)
        # The imports of all contenders must not slow down anybody's garbage collection.
        gc.collect()
        gc.freeze()
        for name in scenarios:
            started = time.monotonic()
            console.print(f"{suite.name}.{name} …", end=" ", highlight=False)
            await suite.scenarios[name](lab)
            console.print(f"{time.monotonic() - started:.0f} s", highlight=False)
    gc.unfreeze()


if __name__ == "__main__":
    typer.run(main)
