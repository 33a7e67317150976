"""`hivemem dead`: the dead letters."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from hivemem.cli import terminal
from hivemem.cli.confirmation import Yes, confirm
from hivemem.cli.counts import counted
from hivemem.cli.details import hanging
from hivemem.cli.progress import counter
from hivemem.cli.rendering import print_fields, print_json, print_notes, print_rows
from hivemem.cli.settings import FAILED, Json, Settings, interrupted, run
from hivemem.cli.visible import visible
from hivemem.dead import DeadLetter
from hivemem.hive import Hive
from hivemem.publishing import Receipt
from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.identifiers import format_time
from hivemem_contracts.limits import LIST_DEFAULT, LIST_MAXIMUM

Sequence = Annotated[int, typer.Argument(min=1, metavar="SEQUENCE", help="The number of the dead letter.")]
Sequences = Annotated[
    list[int] | None, typer.Argument(metavar="[SEQUENCE]...", help="The numbers of the dead letters.")
]
All = Annotated[bool, typer.Option("--all", help="All dead letters of the tenant.")]

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
    limit: Annotated[int, typer.Option(min=1, max=LIST_MAXIMUM, help="Maximum number of items.")] = LIST_DEFAULT,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous page.")] = None,
    json: Json = False,
) -> None:
    """List dead letters, oldest first."""
    settings = Settings.of(ctx, json)
    page = run(settings, lambda hive: hive.dead.list(limit, cursor), waiting="reading the dead letters")
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
        print_notes([f"more: {settings.next_page(page.cursor)}"])


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
def replay(ctx: typer.Context, sequence: Sequences = None, every: All = False, json: Json = False) -> None:
    """Publish dead letters again, unchanged and under their own ids, and remove them from the list.

    Of several, a refused letter is reported and the others are published; then the exit code is 1.
    """
    settings = Settings.of(ctx, json)
    check_choice(sequence, every)
    replayed: dict[int, Receipt] = {}

    async def one(hive: Hive, number: int) -> None:
        replayed[number] = await hive.dead.replay(number)

    problems = run_each(settings, sequence, one, "replayed")
    receipts = [asdict(receipt) for receipt in replayed.values()]
    if settings.json:
        print_json(receipts[0] if sequence and len(sequence) == 1 else {"items": receipts, "problems": problems})
    for number, receipt in replayed.items() if not settings.json else ():
        told = f"dead letter {number} is command {receipt.sequence} now, with id {receipt.message_id}"
        sys.stdout.write(f"{visible(told)}\n")
    if problems:
        raise typer.Exit(FAILED)


@app.command()
def discard(
    ctx: typer.Context, sequence: Sequences = None, every: All = False, yes: Yes = False, json: Json = False
) -> None:
    """Delete dead letters for good."""
    settings = Settings.of(ctx, json)
    check_choice(sequence, every)
    discarded: list[int] = []

    async def loss(hive: Hive) -> str:
        numbers = await chosen(hive, sequence)
        if len(numbers) != 1:
            return f"{counted(len(numbers), 'dead letter')} will go."
        letter = await hive.dead.get(numbers[0])
        return f"Dead letter {letter.sequence} will go: {letter.operation}, {letter.error.name}: {letter.error.detail}."

    async def one(hive: Hive, number: int) -> None:
        await hive.dead.discard(number)
        discarded.append(number)

    if not yes:
        confirm(settings, loss)
    problems = run_each(settings, sequence, one, "discarded")
    if settings.json and sequence and len(sequence) == 1:
        print_json({"discarded": sequence[0]})
    elif settings.json:
        print_json({"items": discarded, "problems": problems})
    else:
        sys.stdout.writelines(f"dead letter {number} is discarded\n" for number in discarded)
    if problems:
        raise typer.Exit(FAILED)


def run_each(
    settings: Settings, sequence: list[int] | None, one: Callable[[Hive, int], Awaitable[None]], what: str
) -> list[dict[str, Any]]:
    """Do the work for each chosen dead letter, and return the errors of refused ones.

    A single letter that is refused is an error of the command.
    """
    problems: list[dict[str, Any]] = []
    done = 0

    async def work(hive: Hive) -> None:
        nonlocal done
        numbers = await chosen(hive, sequence)
        with counter("") as shown:
            for number in numbers:
                shown(f"{what} {done:,} of {counted(len(numbers), 'dead letter')}")
                try:
                    await one(hive, number)
                except (NotFound, InvalidRequest) as error:
                    if sequence and len(sequence) == 1:
                        raise
                    problems.append(error.body()["error"])
                    if not settings.json:
                        sys.stderr.write(f"{error.name}: {visible(error.detail)}\n")
                else:
                    done += 1

    try:
        run(settings, work)
    except KeyboardInterrupt:
        interrupted(f"stopped; {what} {counted(done, 'dead letter')}, the others are still in the list")
    return problems


def check_choice(sequence: list[int] | None, every: bool) -> None:
    if bool(sequence) == every:
        raise typer.BadParameter("give numbers of dead letters, or --all", param_hint="SEQUENCE")


async def chosen(hive: Hive, sequence: list[int] | None) -> list[int]:
    """Return the given numbers, or the numbers of all dead letters at this moment."""
    if sequence:
        return list(dict.fromkeys(sequence))
    found: list[int] = []
    cursor: str | None = None
    with counter("reading the dead letters") as shown:
        while True:
            page = await hive.dead.list(LIST_MAXIMUM, cursor)
            found += [letter.sequence for letter in page.items]
            shown(f"reading the dead letters: {len(found):,}")
            cursor = page.cursor
            if cursor is None:
                return found
