"""`hivemem workspaces`: snapshots and restores of folders, with a progress bar."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from hivemem.cli.confirmation import LOSSES, Yes, confirm
from hivemem.cli.files import shown_progress
from hivemem.cli.positional_fields import BY_POSITION, OperationCommand
from hivemem.cli.rendering import print_fields, print_json, print_reply, print_rows
from hivemem.cli.settings import Json, Settings, interrupted, run
from hivemem.cli.visible import visible

if TYPE_CHECKING:
    from hivemem.hive import Hive

WorkspaceId = Annotated[
    str, typer.Option(metavar="WORKSPACE_ID", rich_help_panel=BY_POSITION, help="The workspace: any id of yours.")
]
Folder = Annotated[str, typer.Option(metavar="PATH", rich_help_panel=BY_POSITION, help="The folder.")]
WorkspaceVersion = Annotated[int | None, typer.Option(min=1, help="The newest if left out.")]
Ignore = Annotated[
    list[str] | None, typer.Option(help="A pattern as in .gitignore, in addition to those of the folder. Repeatable.")
]

RowT = TypeVar("RowT")

app: Final = typer.Typer(
    help="Workspaces, folders as a whole: snapshot, restore, diff.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command(cls=OperationCommand)
def snapshot(
    ctx: typer.Context,
    workspace_id: WorkspaceId,
    path: Folder,
    message: Annotated[str | None, typer.Option(help="What this version is, for people.")] = None,
    agent_id: Annotated[str | None, typer.Option(help="The agent whose cycle made this version.")] = None,
    cycle: Annotated[int | None, typer.Option(min=1, help="The number of that cycle.")] = None,
    expect_version: Annotated[
        int | None, typer.Option(min=0, help="Refuse unless this is the newest version; 0: must not exist.")
    ] = None,
    ignore: Ignore = None,
    json: Json = False,
) -> None:
    """Save a folder as the next version of a workspace. Only bytes that are not stored yet are sent."""
    settings = Settings.of(ctx, json)

    async def work(hive: "Hive") -> dict[str, Any]:
        with shown_progress(f"saving {path}") as progress:
            done = await hive.workspaces.snapshot(
                path,
                workspace_id=workspace_id,
                agent_id=agent_id,
                cycle=cycle,
                message=message,
                expect_version=expect_version,
                ignore=ignore or (),
                progress=progress,
            )
        return asdict(done)

    done = _run_or_say(settings, work, "stopped; no version was saved")
    if settings.json:
        print_json(done)
        return
    for skipped in done.pop("skipped"):
        typer.echo(f"skipped {visible(skipped['path'])}: {visible(skipped['reason'])}", err=True)
    print_fields(done)


@app.command(cls=OperationCommand)
def restore(
    ctx: typer.Context,
    workspace_id: WorkspaceId,
    path: Folder,
    version: WorkspaceVersion = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove files that the version does not have, but for ignored ones.")
    ] = False,
    ignore: Ignore = None,
    json: Json = False,
) -> None:
    """Restore a version into a folder.

    The folder changes when all bytes have arrived. Files that the version does not have stay, unless you say --delete.
    """
    settings = Settings.of(ctx, json)

    async def work(hive: "Hive") -> dict[str, Any]:
        with shown_progress(f"restoring {path}") as progress:
            done = await hive.workspaces.restore(
                workspace_id, path, version=version, delete=delete, ignore=ignore or (), progress=progress
            )
        return asdict(done)

    done = _run_or_say(settings, work, "stopped; the folder is as it was")
    (print_json if settings.json else print_fields)(done)


@app.command(cls=OperationCommand)
def diff(
    ctx: typer.Context,
    workspace_id: WorkspaceId,
    start: Annotated[int, typer.Option("--from", metavar="FROM", min=1, rich_help_panel=BY_POSITION)],
    end: Annotated[int | None, typer.Option("--to", min=1, help="The newest version if left out.")] = None,
    json: Json = False,
) -> None:
    """Show which files differ between two versions."""
    settings = Settings.of(ctx, json)
    found = run(settings, lambda hive: hive.workspaces.diff(workspace_id, start, end), "comparing")
    if settings.json:
        print_json(found)
        return
    print_rows(
        [
            {
                "change": each.change,
                "path": each.path,
                "before": None if each.before is None else each.before.size,
                "after": None if each.after is None else each.after.size,
            }
            for each in found
        ]
    )


@app.command(cls=OperationCommand)
def files(
    ctx: typer.Context,
    workspace_id: WorkspaceId,
    version: WorkspaceVersion = None,
    prefix: Annotated[str | None, typer.Option(help="Only paths with this prefix.")] = None,
    json: Json = False,
) -> None:
    """List the files of a version."""
    _show(ctx, json, lambda hive: hive.workspaces.files(workspace_id, version, prefix=prefix))


@app.command(cls=OperationCommand)
def versions(ctx: typer.Context, workspace_id: WorkspaceId, json: Json = False) -> None:
    """List the versions of a workspace, newest first."""
    _show(ctx, json, lambda hive: hive.workspaces.versions(workspace_id))


@app.command("list")
def list_workspaces(ctx: typer.Context, json: Json = False) -> None:
    """List the workspaces, each at its newest version."""
    _show(ctx, json, lambda hive: hive.workspaces.list())


@app.command(cls=OperationCommand)
def delete(ctx: typer.Context, workspace_id: WorkspaceId, yes: Yes = False, json: Json = False) -> None:
    """Remove a workspace with all its versions."""
    settings = Settings.of(ctx, json)
    if not yes:
        describe = LOSSES["artifacts.workspace_delete"]
        confirm(settings, lambda hive: describe(hive, {"workspace_id": workspace_id}), "looking up what will be lost")
    receipt = run(settings, lambda hive: hive.workspaces.delete(workspace_id), "deleting")
    (print_json if settings.json else print_reply)(receipt)


def _show(ctx: typer.Context, json: bool, read: "Callable[[Hive], Awaitable[Sequence[RowT]]]") -> None:
    settings = Settings.of(ctx, json)
    rows = run(settings, read, "reading")
    (print_json if settings.json else print_rows)(rows)


def _run_or_say(
    settings: Settings, work: "Callable[[Hive], Awaitable[dict[str, Any]]]", stopped: str
) -> dict[str, Any]:
    try:
        return run(settings, work)
    except KeyboardInterrupt:
        interrupted(stopped)
