"""`hivemem tail`: the feed as lines."""

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, cast

import typer
from pydantic_core import from_json, to_json
from rich.cells import cell_len
from rich.text import Text

from hivemem.cli import terminal
from hivemem.cli.cells import clock, cut, short_text
from hivemem.cli.rendering import print_rows
from hivemem.cli.settings import Json, Settings, run
from hivemem.cli.visible import visible
from hivemem.cursor import Cursor
from hivemem.feed import Feed
from hivemem.hive import Hive
from hivemem.received import Received
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import format_time

COLOURS: Final = {
    "session": "cyan",
    "state": "blue",
    "event": "green",
    "memory": "magenta",
    "artifact": "yellow",
    "index": "bright_black",
}
WHOLE: Final = ("at", "entity", "operation", "namespace", "key", "version", "actor", "value", "value_omitted", "cause")
"""The fields of a line in a pipe."""
OWN: Final = {"value", "content"}
"""Fields of a value with the users' own JSON."""
SAID: Final = {"session_id", "sequence", "author", "at"}
"""Fields of a value that mostly repeat the address, the actor or the time of a change."""
VALUE_ROOM: Final = 30
VALUE_INDENT: Final = "    "
_AGO: Final = re.compile(r"(\d{1,9})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def tail(
    ctx: typer.Context,
    prefix: Annotated[
        str | None, typer.Argument(help="The address to follow, as on the wire: session, event.S1, state.user.alice.")
    ] = None,
    since: Annotated[
        str, typer.Option(help="now, start, a time, 10m (or s, h, d) ago, or the cursor of a change.")
    ] = "now",
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many changes.")] = None,
    skip_gaps: Annotated[
        bool, typer.Option("--skip-gaps", help="Continue with a warning if changes are missing.")
    ] = False,
    json: Json = False,
) -> None:
    """Follow the feed of changes, one line each, over restarts of the server.

    Ctrl-C stops it and prints the cursor to resume from.
    """
    settings = Settings.of(ctx, json)
    start = start_of(since)
    feeds: list[Feed] = []

    async def follow(hive: Hive) -> None:
        feed = hive.changes(prefix, since=start, on_gap="skip" if skip_gaps else "raise")
        feeds.append(feed)
        left = count
        async with feed:
            async for change in feed:
                show(change, settings.json)
                left = left - 1 if left is not None else None
                if left == 0:
                    return

    try:
        run(settings, follow)
    except KeyboardInterrupt:
        if feeds and feeds[0].cursor:
            sys.stderr.write(f"go on with: {settings.again('--since', feeds[0].cursor)}\n")
        raise typer.Exit(130) from None


def start_of(since: str) -> str | datetime:
    """Return the argument of `changes` from the text of the command line."""
    if match := _AGO.fullmatch(since):
        try:
            return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError as error:
            raise typer.BadParameter(f"{since} is before all time", param_hint="--since") from error
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        if since not in ("now", "start"):
            check_cursor(since)
        return since
    return moment if moment.tzinfo else moment.astimezone()


def check_cursor(since: str) -> None:
    """Reject a malformed cursor as an error of the command line."""
    try:
        Cursor.parse(since)
    except InvalidRequest as error:
        raise typer.BadParameter(f"{since!r} is neither a time nor a cursor", param_hint="--since") from error


def show(change: Received, json: bool) -> None:
    """Print one line at once: the change as it was sent, also the fields that this client does not know."""
    sent: dict[str, Any] = from_json(change.data)
    if json:
        place = {"sequence": change.sequence, "subject": change.subject, "cursor": change.cursor}
        sys.stdout.write(to_json({**sent, **place}, inf_nan_mode="constants").decode() + "\n")
        sys.stdout.flush()
        return
    if terminal.is_there():
        terminal.show(lines_of(change, sent.get("value"), terminal.width()))
    else:
        print_rows([{name: sent.get(name) for name in WHOLE}])


def lines_of(change: Received, value: Any, width: int) -> list[Text]:
    """Return the line of a change, and its value below it where the window leaves no room beside it."""
    line = Text(clock(change.at), style="bright_black")
    for text, style in (
        (change.kind, COLOURS.get(change.kind.partition(".")[0], "white")),
        (f"{change.namespace}{'/' + change.key if change.key else ''}@{change.version}", "bold"),
        (change.actor, "bright_black"),
    ):
        line.append(" ").append(visible(text), style=style)
    shown = "(over 64 KiB)" if change.value_omitted else short_text(untold(change, value), json=True)
    room = width - line.cell_len - 1
    if room >= min(cell_len(shown), VALUE_ROOM):
        return [line.append(f" {cut(shown, room)}".rstrip())]
    return [line, Text(VALUE_INDENT + cut(shown, width - len(VALUE_INDENT)))]


def untold(change: Received, value: Any) -> Any:
    """Return a value without what its line says already, and without empty fields other than the users' own."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    said = (change.namespace, change.key, change.version, change.actor, format_time(change.at))
    return {
        name: part
        for name, part in fields.items()
        if name in OWN or not (name == "event_id" or part in (None, {}, []) or (name in SAID and part in said))
    }
