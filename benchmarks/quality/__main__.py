"""`python -m benchmarks.quality FOLDER`: measures the quality of recall; see docs/recall-quality.md."""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks.machine import describe
from benchmarks.quality import readers, report
from benchmarks.quality.dialogues import Dataset
from benchmarks.quality.fleet import filled_fleet
from benchmarks.quality.peers import bm25_answers, langgraph_answers
from benchmarks.quality.scoring import TOKENS, Found, Score, figures, score
from benchmarks.quality.ways import BM25, LANGGRAPH, WAYS
from benchmarks.results import Results

ROOT: Final = Path(__file__).resolve().parents[2]
OUT: Final = ROOT / "benchmarks" / "results"
PAGE: Final = ROOT / "docs" / "recall-quality.md"
PACKAGES: Final = ("qdrant-edge-py", "onnxruntime", "bm25s", "langgraph-checkpoint-sqlite")
WIDTH: Final = 170
"""The width of a table that is written into a file."""


def main(
    folder: Annotated[
        Path,
        typer.Argument(exists=True, file_okay=False, help="Holds dialogues in the shape of LoCoMo, REALTALK or BEAM."),
    ],
    out: Annotated[Path, typer.Option(help="Where raw results and the data of the run go.")] = OUT,
    publish: Annotated[bool, typer.Option("--publish", help="Write docs/recall-quality.md and its plot anew.")] = False,
    earlier: Annotated[
        Path | None, typer.Option("--results", help="Show, publish or compare an earlier run instead of a new one.")
    ] = None,
) -> None:
    """Measure how much of the evidence recall finds. Fails if a figure is over a point below the published one."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        datasets = readers.read(folder)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    results = Results.read(earlier) if earlier else run(datasets, out, console)
    report.show(results, console)
    if publish:
        report.publish(results, PAGE)
        console.print(f"{PAGE.name} has the figures of this run", highlight=False)
    elif report.published(PAGE).exists():
        raise typer.Exit(not report.compare(results, Results.read(report.published(PAGE)), console))


def run(datasets: list[Dataset], out: Path, console: Console) -> Results:
    out.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="data-", dir=out.resolve()))
    started = time.monotonic()
    try:
        results = asyncio.run(_measure(datasets, directory, console))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    results.machine["duration"] = f"{time.monotonic() - started:.0f} s"
    file = out / f"quality-{time.strftime('%Y%m%d-%H%M%S')}.json"
    results.write(file)
    console.print(f"raw results: {file}", highlight=False)
    return results


async def _measure(datasets: list[Dataset], directory: Path, console: Console) -> Results:
    results = Results(quick=False)
    for number, dataset in enumerate(datasets):
        console.print(f"{dataset.title} …", highlight=False)
        found = {BM25: [bm25_answers(dialogue) for dialogue in dataset.dialogues]}
        async with asyncio.TaskGroup() as group:
            peer = group.create_task(langgraph_answers(directory / f"langgraph-{number}.db", dataset))
            for layout, ways in groupby(WAYS, key=lambda way: way.layout):
                # Words are weighed by all that a fleet holds, so each layout of a set has a fleet of its own.
                async with filled_fleet(directory / f"{layout}-{number}", layout, dataset) as fleet:
                    for way in ways:
                        found[way.name] = [await fleet.answers(way, dialogue) for dialogue in dataset.dialogues]
                    results.machine |= {**fleet.servers, report.MODEL: await fleet.embedder()}
        found[LANGGRAPH] = peer.result()
        for contender, answers in found.items():
            for name, value in figures(_scores(dataset, answers)).items():
                results.add(f"{dataset.title}: {name}", contender, "tokens" if name == TOKENS else "%", [value])
    results.machine = describe(directory, results.machine, PACKAGES)
    return results


def _scores(dataset: Dataset, answers: list[list[Found]]) -> Iterator[Score]:
    for dialogue, found in zip(dataset.dialogues, answers, strict=True):
        for question, hits in zip(dialogue.questions, found, strict=True):
            yield score(dialogue, question, hits)


if __name__ == "__main__":
    typer.run(main)
