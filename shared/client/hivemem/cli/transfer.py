"""`hivemem memory export` and `import`: memories as JSON lines, with a progress bar."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal, NoReturn

import typer

from hivemem.cli.counts import counted
from hivemem.cli.positional_fields import BY_POSITION
from hivemem.cli.settings import FAILED, Json, Settings, interrupted, run
from hivemem_contracts.errors import HiveError
from hivemem_contracts.identifiers import format_time

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem.importing import Imported
    from hivemem.transfer import Exported, Progress

STANDARD: Final = "-"


def export_command(
    ctx: typer.Context,
    prefix: Annotated[
        str,
        typer.Option(
            metavar="PREFIX", rich_help_panel=BY_POSITION, help="A namespace, or the first segments of namespaces."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="The file to write, which appears when it is complete; - is standard output."
        ),
    ] = STANDARD,
    as_of: Annotated[str | None, typer.Option(help="As of this moment; now if left out.")] = None,
    json: Json = False,
) -> None:
    """Write the memories at and below a prefix as JSON lines, all as of one moment."""
    settings = Settings.of(ctx, json)
    moment = moment_of(as_of)

    async def work(hive: "Hive") -> "Exported":
        with shown_progress("exporting") as progress:
            return await hive.export_to(
                sys.stdout.buffer if output == STANDARD else output, prefix, as_of=moment, progress=progress
            )

    try:
        exported = run(settings, work)
    except KeyboardInterrupt:
        interrupted("stopped; the output ends early" if output == STANDARD else f"stopped; {output} was not written")
    except OSError as error:
        _no_file(output, "written", "--output", error)
    told = sys.stderr if output == STANDARD else sys.stdout
    if settings.json:
        from hivemem.cli.rendering import print_json

        print_json({**asdict(exported), "as_of": format_time(exported.as_of)}, told)
    else:
        from hivemem.cli.cells import clock

        memories = counted(exported.memories, "memory", "memories")
        shown_time = clock(exported.as_of, exact=True) if told.isatty() else format_time(exported.as_of)
        told.write(f"exported {memories} as of {shown_time}, {counted(exported.bytes, 'byte')}\n")


def import_command(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Option(metavar="FILE", rich_help_panel=BY_POSITION, help="The file of an export; - is standard input."),
    ],
    existing: Annotated[
        Literal["update", "keep"], typer.Option(help="How to treat an existing memory with other content.")
    ] = "update",
    after_line: Annotated[int, typer.Option(min=0, help="Resume an interrupted import after this line.")] = 0,
    json: Json = False,
) -> None:
    """Import the lines of an export.

    Memories with the same content stay as they are, so an import can be repeated. A refused line is reported, and the
    others are imported; then the exit code is 1.
    """
    settings = Settings.of(ctx, json)

    async def work(hive: "Hive") -> "Imported":
        source = sys.stdin.buffer if file == STANDARD else file
        try:
            with shown_progress("importing") as progress:
                return await hive.import_from(source, existing=existing, after_line=after_line, progress=progress)
        except HiveError as error:
            if error.context.get("through_line"):
                sys.stderr.write(f"go on with: {settings.again('--after-line', str(error.context['through_line']))}\n")
            raise

    try:
        imported = run(settings, work)
    except KeyboardInterrupt:
        interrupted("stopped; run the same command again: imported memories stay as they are")
    except OSError as error:
        _no_file(file, "read", "--file", error)
    show_imported(imported, settings.json)
    if imported.refused:
        raise typer.Exit(FAILED)


def show_imported(imported: "Imported", json: bool) -> None:
    counts = {name: getattr(imported, name) for name in ("created", "updated", "unchanged", "kept", "refused")}
    if json:
        from hivemem.cli.rendering import print_json

        problems = [problem.body()["error"] for problem in imported.problems]
        print_json({**counts, "through_line": imported.through_line, "problems": problems})
        return
    for problem in imported.problems:
        sys.stderr.write(f"{problem.name}: {problem.detail}\n")
    if imported.refused > len(imported.problems):
        sys.stderr.write(f"and {imported.refused - len(imported.problems):,} more\n")
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"
    sys.stdout.write(f"imported {counted(imported.memories, 'memory', 'memories')}: {said}\n")


@contextmanager
def shown_progress(what: str) -> "Generator[Callable[[Progress], None] | None, None, None]":
    """Show a bar on standard error, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[memories]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, memories=0)
        yield lambda step: bar.update(
            task, total=None if step.fraction is None else 1.0, completed=step.fraction or 0.0, memories=step.memories
        )


def moment_of(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a time", param_hint="--as-of") from error
    return moment if moment.tzinfo else moment.astimezone()


def _no_file(name: str, what: str, hint: str, error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise error
    raise typer.BadParameter(f"{name} cannot be {what}: {error.strerror or error}", param_hint=hint) from error
