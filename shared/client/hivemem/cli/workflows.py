"""`hivemem workflows`: definitions in files, and runs."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hivemem.cli.fields import read_json
from hivemem.cli.rendering import print_fields, print_json, print_notes, print_reply, print_rows
from hivemem.cli.settings import INTERRUPTED, Json, Settings, fail, run
from hivemem.cli.visible import visible_lines
from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.limits import LIST_DEFAULT, LIST_MAXIMUM

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem_contracts.agents.workflows.models import Run

JSON_HELP = "JSON, or @FILE, or @- for standard input."
STATUSES = ("running", "waiting", "completed", "failed", "compensated", "cancelled")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The workflow.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run.")]
Limit = Annotated[int, typer.Option(min=1, max=LIST_MAXIMUM, help="Maximum number of items.")]
PageCursor = Annotated[str | None, typer.Option(help="The cursor of the previous page.")]
Mermaid = Annotated[bool, typer.Option("--mermaid", help="Print a diagram for Mermaid.")]

app = typer.Typer(
    help="Workflows: store definitions, start runs and look after them.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
def apply(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML or JSON files, with `name` and `steps`.")],
    json: Json = False,
) -> None:
    """Store the workflows of files. A definition that changes nothing makes no version.

    An error names the file, the line and the column; nothing is stored if a file is no valid definition by itself.
    """
    from hivemem.definition_files import read_definitions
    from hivemem.workflows.workflow_file import WorkflowFile

    settings = Settings.of(ctx, json)
    try:
        found = [one for file in files for one in read_definitions(file, WorkflowFile)]
    except OSError as error:
        fail(settings, InvalidRequest(f"{error.filename}: {error.strerror}"))
    except HiveError as error:
        fail(settings, error)

    async def store(hive: "Hive") -> list[dict[str, Any]]:
        stored: list[dict[str, Any]] = []
        for one in found:
            try:
                written = await hive.workflows.apply(one.body.name, one.body.definition)
            except InvalidRequest as error:
                raise one.located(error, "definition") from error
            stored.append({"name": written.name, "version": written.version, "steps": len(one.body.steps)})
        return stored

    stored = run(settings, store, waiting="storing workflows")
    print_json({"items": stored}) if settings.json else print_rows(stored)


@app.command("list")
def list_workflows(
    ctx: typer.Context, limit: Limit = LIST_DEFAULT, cursor: PageCursor = None, json: Json = False
) -> None:
    """List workflows by name."""
    settings = Settings.of(ctx, json)
    page = run(settings, lambda hive: hive.workflows.list(limit=limit, cursor=cursor), waiting="reading the workflows")
    _print(settings, page, cursor=page.cursor)


@app.command()
def show(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="The newest version, if left out.")] = None,
    mermaid: Mermaid = False,
    json: Json = False,
) -> None:
    """Show a definition as YAML, which `apply` takes: its newest version or an older one."""
    settings = Settings.of(ctx, json)
    found = run(settings, lambda hive: hive.workflows.show(name, version=version))
    if mermaid:
        from hivemem.workflows.mermaid import definition_diagram

        sys.stdout.write(definition_diagram(found.definition))
    elif settings.json:
        print_json(found.model_dump(mode="json", exclude_unset=True))
    else:
        import yaml

        document = {"name": found.name, **found.definition.model_dump(mode="json", exclude_unset=True)}
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        sys.stdout.writelines(f"{line}\n" for line in visible_lines(text.rstrip()))
        print_notes([f"version {found.version}, by {found.created_by}"])


@app.command()
def start(
    ctx: typer.Context,
    name: Name,
    run_id: Annotated[str | None, typer.Option(help="A ULID if left out.")] = None,
    input: Annotated[str | None, typer.Option(help=JSON_HELP)] = None,
    session_id: Annotated[str | None, typer.Option(help="The session that gets the results as events.")] = None,
    json: Json = False,
) -> None:
    """Start a run; processes that serve the workflow take its steps."""
    settings = Settings.of(ctx, json)
    given = None if input is None else read_json(input, "--input")
    show_run(
        settings,
        run(settings, lambda hive: hive.workflows.start(name, input=given, run_id=run_id, session_id=session_id)),
    )


@app.command()
def runs(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    status: Annotated[str | None, typer.Option(help=f"Only {', '.join(STATUSES)}.")] = None,
    limit: Limit = LIST_DEFAULT,
    cursor: PageCursor = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with each change of a run, until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    settings = Settings.of(ctx, json)
    if status is not None and status not in STATUSES:
        raise typer.BadParameter(f"{status!r} is none of {', '.join(STATUSES)}", param_hint="--status")
    wanted: Any = status

    async def follow(hive: "Hive") -> None:
        async with hive.changes("run" if name is None else _prefix(name)) as feed:
            await listed(hive)
            async for change in feed:
                value = change.value
                if change.entity == "run" and value is not None and wanted in (None, getattr(value, "status", None)):
                    print_json(value) if settings.json else print_rows([value])

    async def listed(hive: "Hive") -> None:
        page = await hive.workflows.runs(name=name, status=wanted, limit=limit, cursor=cursor)
        _print(settings, page, cursor=page.cursor)

    try:
        run(settings, follow if watch else listed)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


@app.command("run")
def one_run(
    ctx: typer.Context,
    run_id: RunId,
    limit: Limit = LIST_DEFAULT,
    cursor: PageCursor = None,
    mermaid: Mermaid = False,
    json: Json = False,
) -> None:
    """Show a run with its newest steps."""
    settings = Settings.of(ctx, json)
    if mermaid:
        run(settings, lambda hive: _draw(hive, run_id))
        return
    found = run(settings, lambda hive: hive.workflows.run(run_id, limit=limit, cursor=cursor))
    show_run(settings, found)


@app.command()
def signal(
    ctx: typer.Context,
    run_id: RunId,
    name: Annotated[str, typer.Argument(metavar="SIGNAL", help="The name of the signal.")],
    data: Annotated[str | None, typer.Option(help=JSON_HELP)] = None,
    json: Json = False,
) -> None:
    """Send a signal to a run, which keeps it until a step waits for it."""
    settings = Settings.of(ctx, json)
    given = None if data is None else read_json(data, "--data")
    show_run(settings, run(settings, lambda hive: hive.workflows.signal(run_id, name, given)))


@app.command()
def cancel(ctx: typer.Context, run_id: RunId, json: Json = False) -> None:
    """Cancel a run. Its steps end as soon as their processes learn of it."""
    settings = Settings.of(ctx, json)
    show_run(settings, run(settings, lambda hive: hive.workflows.cancel(run_id)))


@app.command()
def retry(
    ctx: typer.Context,
    run_id: RunId,
    step: Annotated[str | None, typer.Option("--from", help="The step to go on with; else where it stopped.")] = None,
    json: Json = False,
) -> None:
    """Go on with a run that failed or was cancelled."""
    settings = Settings.of(ctx, json)
    show_run(settings, run(settings, lambda hive: hive.workflows.retry(run_id, step=step)))


def show_run(settings: Settings, found: "Run") -> None:
    """Show a run, and its steps as a table."""
    if settings.json:
        print_json(found)
        return
    print_fields({name: value for name, value in dict(found).items() if name not in ("steps", "cursor", "duplicate")})
    print_rows(found.steps)
    if found.cursor is not None:
        print_notes([f"earlier steps: {settings.next_page(found.cursor)}"])


async def _draw(hive: "Hive", run_id: str) -> None:
    from hivemem.workflows.mermaid import definition_diagram

    found = await hive.workflows.run(run_id, limit=LIST_MAXIMUM)
    shown = await hive.workflows.show(found.name, version=found.version)
    sys.stdout.write(definition_diagram(shown.definition, found.steps))


def _prefix(name: str) -> str:
    from hivemem.feed import prefix

    return prefix("run", name)


def _print(settings: Settings, page: Any, cursor: str | None) -> None:
    if settings.json:
        print_json(page)
    else:
        print_reply(page, settings.next_page(cursor) if cursor else "")
