"""`python -m benchmarks`: measures, prints the table, keeps the raw results; see docs/benchmarks.md."""

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

from benchmarks.fleets import Store
from benchmarks.lab import open_lab
from benchmarks.machine import Company, describe
from benchmarks.page import publish as write_page
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.table import print_table

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "benchmarks" / "results"
DOCS: Final = ROOT / "docs"
WIDTH: Final = 190
"""Of a table that goes into a file."""

LONGEST_SECONDS: Final = 900
"""A run stops by itself, whatever hangs."""


def main(
    scenarios: Annotated[list[str] | None, typer.Argument(help=f"Some of {', '.join(SCENARIOS)}; all if none.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small and short: does it work?")] = False,
    store: Annotated[Literal["sqlite", "mongo", "both"], typer.Option(help="Which of Hivemem's stores.")] = "both",
    out: Annotated[Path, typer.Option(help="Where raw results and the data of the run go: the disk counts.")] = OUT,
    publish: Annotated[bool, typer.Option("--publish", help="Write docs/benchmarks.md and its plots anew.")] = False,
    earlier: Annotated[
        Path | None, typer.Option("--results", help="Show, or publish, an earlier run instead of a new one.")
    ] = None,
) -> None:
    """Measure Hivemem next to the session services of google-adk: same events, same disk, by turns."""
    unknown = [name for name in scenarios or () if name not in SCENARIOS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(SCENARIOS)}")
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if earlier is not None:
        results = Results.read(earlier)
    else:
        stores: tuple[Store, ...] = ("sqlite", "mongo") if store == "both" else (store,)
        results = Results(quick)
        out.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="data-", dir=out.resolve()))
        try:
            company = Company()
            asyncio.run(measure(results, scenarios or list(SCENARIOS), stores, directory, console))
            results.machine["busy with other work"] = company.cores()
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        file = out / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
        results.write(file)
        console.print(f"raw results: {file}", highlight=False)
    print_table(results, console)
    if publish:
        write_page(results, DOCS)
        console.print("docs/benchmarks.md is written", highlight=False)


async def measure(
    results: Results, scenarios: list[str], stores: tuple[Store, ...], directory: Path, console: Console
) -> None:
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    async with asyncio.timeout(LONGEST_SECONDS), open_lab(directory, stores, _sizes(results), results) as lab:
        servers = {name: text for fleet in lab.fleets.values() for name, text in fleet.servers.items()}
        results.machine = describe(directory, servers)
        # What was imported for all of them together must not burden anybody's garbage collection.
        gc.collect()
        gc.freeze()
        for name in scenarios:
            started = time.monotonic()
            console.print(f"{name} …", end=" ", highlight=False)
            await SCENARIOS[name](lab)
            console.print(f"{time.monotonic() - started:.0f} s", highlight=False)


def _sizes(results: Results) -> Sizes:
    return QUICK if results.quick else FULL


if __name__ == "__main__":
    typer.run(main)
