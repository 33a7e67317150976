"""The global options, and the frame of every subcommand: a client, errors, exit codes."""

import dataclasses
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

from hivemem.cli.visible import visible
from hivemem_contracts.errors import HiveError

if TYPE_CHECKING:
    from hivemem.hive import Hive

FAILED: Final = 1
NOT_REACHABLE: Final = 3

Result = TypeVar("Result")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_HINTS: Final = {
    "InvalidRequest": "see --help of the subcommand for its options",
    "AlreadyExists": "choose another id, or leave it out for a fresh one",
    "RevisionConflict": "another write came first: read again, and repeat with the new revision",
    "LeaseHeld": "wait in line for it with `hivemem memory lease … --wait-ms`",
    "Overloaded": "try again in a moment",
    "Internal": "see the worker's log for the cause",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    url: str
    tenant: str
    agent: str
    json: bool
    timeout_seconds: float

    @classmethod
    def of(cls, ctx: typer.Context, json: bool) -> "Settings":
        """Return the options of this run; `--json` may come before or after the subcommand."""
        found: Any = ctx.find_object(cls)
        assert isinstance(found, cls), "the root command sets them"
        return dataclasses.replace(found, json=found.json or json)


def run(settings: Settings, work: "Callable[[Hive], Awaitable[Result]]") -> Result:
    """Run the work with a client, and turn an error into a message and an exit code."""
    import asyncio

    async def connected() -> Result:
        from hivemem.hive import connect

        # A query is not worth a long wait for a server that is down.
        wait = min(settings.timeout_seconds, 5.0)
        async with connect(
            settings.url,
            tenant=settings.tenant,
            agent=settings.agent,
            timeout_seconds=settings.timeout_seconds,
            connect_timeout_seconds=wait,
        ) as hive:
            return await work(hive)

    try:
        return asyncio.run(connected())
    except HiveError as error:
        fail(settings, error)


def fail(settings: Settings, error: HiveError) -> NoReturn:
    """Show an error and exit."""
    if settings.json:
        from hivemem.cli.rendering import print_json

        print_json(error.body())
    else:
        code = f" ({error.code})" if error.code else ""
        sys.stderr.write(f"{error.name}{code}: {visible(error.detail)}\n")
        hint = _HINTS.get(error.name)
        if hint is not None:
            sys.stderr.write(f"hint: {hint}\n")
    unreachable = error.context.get("reason") in ("disconnected", "no_responders", "timeout")
    raise typer.Exit(NOT_REACHABLE if unreachable else FAILED)
