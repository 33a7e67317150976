"""`hivemem windows apply` and `show`: resources from files, and all about a resource or a window."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hivemem.cli import terminal
from hivemem.cli.counts import counted
from hivemem.cli.positional_fields import BY_POSITION
from hivemem.cli.rendering import print_fields, print_json, print_rows
from hivemem.cli.settings import Json, Settings, fail, run
from hivemem_contracts.errors import HiveError

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem.window_files import Applied

NEWEST: Final = 20
"""The messages, or the windows, that `show` shows."""
STATE: Final = ("key", "messages", "tokens", "shares", "limits", "appended", "evicted", "flushes", "flushed")


def apply_command(
    ctx: typer.Context,
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files, or folders with files, in YAML or JSON.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Declare nothing, only compare.")] = False,
    json: Json = False,
) -> None:
    """Declare the window resources of files.

    Nothing is declared unless all files are right: an error names the file, the line and the column.
    """
    from hivemem.window_files import apply_resources, read_resources

    settings = Settings.of(ctx, json)
    applied: list[Applied] = []
    try:
        definitions = read_resources(paths)
    except OSError as error:
        raise typer.BadParameter(f"{error.filename} cannot be read: {error.strerror}", param_hint="PATH") from error
    except HiveError as error:
        fail(settings, error)

    async def work(hive: "Hive") -> None:
        async for each in apply_resources(hive, definitions, dry_run=dry_run):
            applied.append(each)
            if not settings.json:
                version = f" (version {each.version})" if each.version else ""
                sys.stdout.write(f"{each.outcome:<9}  {each.id}{version}  {each.file}\n")

    run(settings, work)
    if settings.json:
        print_json({"items": [asdict(each) for each in applied], "dry_run": dry_run})
    elif dry_run:
        changed = sum(each.outcome != "unchanged" for each in applied)
        sys.stdout.write(f"a dry run: {counted(changed, 'resource')} would change\n")


def show_command(
    ctx: typer.Context,
    resource: Annotated[
        str, typer.Option(metavar="RESOURCE", rich_help_panel=BY_POSITION, help="The resource of windows.")
    ],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", rich_help_panel=BY_POSITION, help="The key of one of its windows.")
    ] = None,
    json: Json = False,
) -> None:
    """Show a resource with its windows, or a window with its state and its newest messages."""
    settings = Settings.of(ctx, json)

    async def of_resource(hive: "Hive") -> tuple[Any, list[Any]]:
        found = await hive.windows.resource_get(id=resource)
        return found, (await hive.windows.windows(resource=resource, limit=NEWEST)).items

    async def of_window(hive: "Hive") -> tuple[Any, list[Any]]:
        window = hive.window(resource, key=key)
        read = await window.read(limit=NEWEST)
        stats, health = await window.stats(), await window.health()
        state = {name: getattr(stats, name) for name in STATE}
        told = {**state, "flush": health.flush, "summary": read.summary}
        return {name: value for name, value in told.items() if value}, list(read.messages)

    shown, rows = run(settings, of_resource if key is None else of_window)
    if settings.json:
        print_json({"resource" if key is None else "window": shown, "windows" if key is None else "messages": rows})
        return
    print_fields(shown)
    if terminal.is_there():
        sys.stdout.write("\n")
    print_rows(rows)


COMMANDS: Final[dict[str, Callable[..., None]]] = {"apply": apply_command, "show": show_command}
