"""`hivemem dead`: the dead letters."""

import sys
from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from hivemem.cli import terminal
from hivemem.cli.details import hanging
from hivemem.cli.rendering import print_fields, print_json, print_notes, print_rows
from hivemem.cli.settings import Json, Settings, run
from hivemem.cli.visible import visible
from hivemem.dead import DeadLetter
from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import LIST_DEFAULT, LIST_MAXIMUM

Sequence = Annotated[int, typer.Argument(min=1, help="The number of the dead letter.")]

app = typer.Typer(
    help="Dead letters, commands that can never succeed: list, show, replay, discard.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def described(letter: DeadLetter) -> dict[str, Any]:
    """Return all fields of a dead letter except its body."""
    return {
        "sequence": letter.sequence,
        "at": format_time(letter.at),
        "agent": letter.agent,
        "operation": letter.operation,
        "route": letter.route,
        "message_id": letter.message_id,
        "subject": letter.subject,
        "error": letter.error.body()["error"],
        "omitted_bytes": letter.omitted_bytes,
    }


def body_of(letter: DeadLetter) -> Any:
    """Return the body as JSON, or as text if it is not JSON."""
    try:
        return orjson.loads(letter.data)
    except orjson.JSONDecodeError:
        return letter.data.decode("utf-8", "replace")


def error_of(letter: DeadLetter) -> str:
    return f"{letter.error.name}: {letter.error.detail}"


@app.command("list")
def list_letters(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=LIST_MAXIMUM)] = LIST_DEFAULT,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous page.")] = None,
    json: Json = False,
) -> None:
    """List dead letters, oldest first."""
    settings = Settings.of(ctx, json)
    page = run(settings, lambda hive: hive.dead.list(limit, cursor))
    if settings.json:
        print_json({"items": [described(letter) for letter in page.items], "cursor": page.cursor})
        return
    rows = [
        {
            "sequence": letter.sequence,
            "operation": letter.operation,
            "route": letter.route,
            "error": error_of(letter),
            "at": letter.at,
            "agent": letter.agent,
        }
        for letter in page.items
    ]
    errors = [hanging(Text("  "), [visible(error_of(letter))], terminal.width()) for letter in page.items]
    print_rows(rows, hidden=["error"], below=errors)
    if page.cursor:
        print_notes([f"more: hivemem dead list --cursor {page.cursor}"])


@app.command()
def show(ctx: typer.Context, sequence: Sequence, json: Json = False) -> None:
    """Show a dead letter, with its error and its body."""
    settings = Settings.of(ctx, json)
    letter = run(settings, lambda hive: hive.dead.get(sequence))
    if settings.json:
        print_json({**described(letter), "body": letter.data.decode("utf-8", "replace")})
        return
    print_fields(
        {**described(letter), "at": letter.at, "omitted_bytes": letter.omitted_bytes or None, "body": body_of(letter)}
    )


@app.command()
def replay(ctx: typer.Context, sequence: Sequence, json: Json = False) -> None:
    """Publish a dead letter again, unchanged and under its own id, and remove it from the list."""
    settings = Settings.of(ctx, json)
    receipt = run(settings, lambda hive: hive.dead.replay(sequence))
    if settings.json:
        print_json(asdict(receipt))
    else:
        sys.stdout.write(
            f"dead letter {sequence} is command {receipt.sequence} now, with id {visible(receipt.message_id)}\n"
        )


@app.command()
def discard(ctx: typer.Context, sequence: Sequence, json: Json = False) -> None:
    """Delete a dead letter for good."""
    settings = Settings.of(ctx, json)
    run(settings, lambda hive: hive.dead.discard(sequence))
    if settings.json:
        print_json({"discarded": sequence})
    else:
        sys.stdout.write(f"dead letter {sequence} is discarded\n")
