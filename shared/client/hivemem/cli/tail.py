"""`hivemem tail`: the feed as lines."""

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from pydantic_core import from_json, to_json
from rich.console import Console
from rich.text import Text

from hivemem.cli.rendering import text_of
from hivemem.cli.settings import Json, Settings, run
from hivemem.cursor import Cursor
from hivemem.feed import Feed
from hivemem.hive import Hive
from hivemem.received import Received
from hivemem_contracts.errors import InvalidRequest

COLOURS: Final = {
    "session": "cyan",
    "state": "blue",
    "event": "green",
    "memory": "magenta",
    "artifact": "yellow",
    "index": "bright_black",
}
VALUE_CHARACTERS: Final = 200
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
    entity = change.kind.partition(".")[0]
    line = Text(no_wrap=True)
    line.append(f"{change.at.astimezone():%H:%M:%S.%f}"[:-3], style="bright_black")
    line.append(f" {change.kind}", style=COLOURS.get(entity, "white"))
    line.append(f" {change.namespace}{'/' + change.key if change.key else ''}@{change.version}", style="bold")
    line.append(f" {change.actor}", style="bright_black")
    value = "(over 64 KiB)" if change.value_omitted else text_of(sent.get("value"))
    line.append(f" {value if len(value) <= VALUE_CHARACTERS else value[:VALUE_CHARACTERS] + '…'}")
    Console(soft_wrap=True).print(line)
    sys.stdout.flush()
