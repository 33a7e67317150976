"""`hivemem doctor`: checks the fleet, and gives advice for each fault."""

import asyncio
from dataclasses import asdict
from typing import Final

import typer
from rich.text import Text

from hivemem.cli import terminal
from hivemem.cli.checks import Check, examine
from hivemem.cli.details import hanging
from hivemem.cli.progress import shown_when_slow
from hivemem.cli.rendering import print_json, print_rows
from hivemem.cli.settings import FAILED, Json, Settings
from hivemem.cli.visible import visible

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
    if not terminal.is_there():
        print_rows([asdict(check) for check in checks])
        return
    pad = max(len(check.name) for check in checks)
    for check in checks:
        mark, colour = MARKS[check.outcome]
        label = Text(f"{mark}  ", style=colour).append(f"{check.name:<{pad}}  ", style="bold")
        terminal.show(hanging(label, [visible(check.detail)], terminal.width()))
        if check.advice:
            terminal.show(hanging(Text(" " * label.cell_len), [f"→ {visible(check.advice)}"], terminal.width(), colour))
