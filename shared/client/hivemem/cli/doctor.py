"""`hivemem doctor`: checks the fleet, and gives advice for each fault."""

import asyncio
from dataclasses import asdict
from typing import Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hivemem.cli.checks import Check, examine
from hivemem.cli.progress import shown_when_slow
from hivemem.cli.rendering import print_json
from hivemem.cli.settings import FAILED, Json, Settings

MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def doctor(ctx: typer.Context, json: Json = False) -> None:
    """Check the server, its streams and the workers, and give advice for each fault.

    The exit code is 1 if there is a fault.
    """
    settings = Settings.of(ctx, json)
    checks = asyncio.run(examined(settings))
    healthy = all(check.outcome != "failed" for check in checks)
    if settings.json:
        print_json({"healthy": healthy, "checks": [asdict(check) for check in checks]})
    else:
        show(checks)
    if not healthy:
        raise typer.Exit(FAILED)


async def examined(settings: Settings) -> list[Check]:
    async with shown_when_slow("checking the fleet"):
        return await examine(settings)


def show(checks: list[Check]) -> None:
    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(no_wrap=True)
    shown.add_column(no_wrap=True, style="bold")
    shown.add_column(overflow="fold")
    for check in checks:
        mark, colour = MARKS[check.outcome]
        detail = Text(check.detail)
        if check.advice:
            detail.append(f"\n→ {check.advice}", style=colour)
        shown.add_row(Text(mark, style=colour), check.name, detail)
    Console().print(shown)
