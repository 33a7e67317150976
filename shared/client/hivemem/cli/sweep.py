"""`hivemem vectors sweep`: compares memories and index, part by part, with a progress line."""

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hivemem.cli.counts import counted
from hivemem.cli.progress import counter
from hivemem.cli.settings import Json, Settings, interrupted, run

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem_contracts.vectors.replies import SweepPage


@dataclass
class Swept:
    """The totals of a sweep."""

    checked: int = 0
    missing: int = 0
    left_over: int = 0

    def add(self, part: "SweepPage") -> None:
        self.checked += part.checked
        self.missing += part.missing
        self.left_over += part.left_over


def sweep_command(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the differences.")] = False,
    json: Json = False,
) -> None:
    """Compare memories and index, and repair the differences."""
    settings = Settings.of(ctx, json)

    async def work(hive: "Hive") -> Swept:
        swept = Swept()
        with counter("sweeping") as shown:
            async for part in hive.vectors.sweep_all(dry_run=dry_run):
                swept.add(part)
                shown(told(swept))
        return swept

    try:
        swept = run(settings, work)
    except KeyboardInterrupt:
        interrupted("stopped; finished repairs stay")
    if settings.json:
        from hivemem.cli.rendering import print_json

        print_json({**asdict(swept), "dry_run": dry_run})
        return
    sys.stdout.write(f"{told(swept)}{'' if dry_run or not (swept.missing or swept.left_over) else '; repaired'}\n")


def told(swept: Swept) -> str:
    compared = counted(swept.checked, "memory", "memories")
    return f"compared {compared}: {swept.missing:,} missing, {swept.left_over:,} left over"
