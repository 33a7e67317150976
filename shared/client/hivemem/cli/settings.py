"""The global options, and the frame of every subcommand: a client, errors, exit codes."""

import dataclasses
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

from hivemem.cli.visible import visible
from hivemem_contracts.errors import HiveError

if TYPE_CHECKING:
    from hivemem.hive import Connecting, Hive

FAILED: Final = 1
WRONG: Final = 2
NOT_REACHABLE: Final = 3
INTERRUPTED: Final = 130
CONNECT_SECONDS: Final = 5.0
"""A query is not worth a longer wait for a server that is slow to answer."""

Result = TypeVar("Result")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_HINTS: Final = {
    "AlreadyExists": "choose another id, or leave it out for a fresh one",
    "RevisionConflict": "another write came first: read again, and repeat with the new revision",
    "LeaseHeld": "wait in line for it with `hivemem memory lease … --wait-ms`",
    "Overloaded": "try again in a moment",
    "Internal": "see the worker's log for the cause",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The global options, and what the user typed."""

    url: str
    tenant: str
    agent: str
    json: bool
    timeout_seconds: float
    words: tuple[str, ...]
    """The whole command line after `hivemem`."""
    command: str = "hivemem"
    """The subcommand, such as `hivemem sessions list`."""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """The options of the command line by the name of the field that they set."""

    @classmethod
    def of(cls, ctx: typer.Context, json: bool) -> "Settings":
        """Return the options of this run; `--json` may come before or after the subcommand."""
        found: Any = ctx.find_object(cls)
        assert isinstance(found, cls), "the root command sets them"
        options = {
            str(parameter.name): parameter.opts[0]
            for command in (ctx.find_root().command, ctx.command)
            for parameter in command.params
            if parameter.param_type_name == "option"
        }
        return dataclasses.replace(found, json=found.json or json, command=ctx.command_path, options=options)

    def next_page(self, cursor: str) -> str:
        """Return the command for the next page, ready to paste."""
        return self.again("--cursor", cursor)

    def again(self, option: str, value: str) -> str:
        """Return what the user typed with another value of an option, ready to paste."""
        words = list(self.words)
        for place in range(len(words) - 1, -1, -1):
            if words[place].startswith(f"{option}="):
                del words[place]
                break
            if words[place] == option:
                del words[place : place + 2]
                break
        end = words.index("--") if "--" in words else len(words)
        return shlex.join(["hivemem", *words[:end], option, value, *words[end:]])


def client(settings: Settings, connect_seconds: float = CONNECT_SECONDS) -> "Connecting":
    """Return the connection of this command. A server that refuses it is an error at once."""
    from hivemem.hive import connect

    return connect(
        settings.url,
        tenant=settings.tenant,
        agent=settings.agent,
        timeout_seconds=settings.timeout_seconds,
        connect_timeout_seconds=min(settings.timeout_seconds, connect_seconds),
        retry_refused=False,
    )


def run(settings: Settings, work: "Callable[[Hive], Awaitable[Result]]", waiting: str = "") -> Result:
    """Run the work with a client, and turn an error into a message and an exit code.

    A terminal shows `waiting` if it takes long, unless the work shows its own progress.
    """
    import asyncio

    from hivemem.cli.progress import shown_when_slow

    async def connected() -> Result:
        async with client(settings) as hive:
            if not waiting:
                return await work(hive)
            async with shown_when_slow(waiting):
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
        sys.stderr.write(f"{error.name}{code}: {visible(detail_of(settings, error))}\n")
        hint = _HINTS.get(error.name) or _hint_for_missing(error)
        if error.name == "InvalidRequest":
            hint = f"`{settings.command} --help` describes the options"
        if hint is not None:
            sys.stderr.write(f"hint: {hint}\n")
    unreachable = error.context.get("reason") in ("disconnected", "no_responders", "timeout")
    raise typer.Exit(NOT_REACHABLE if unreachable else FAILED)


def _hint_for_missing(error: HiveError) -> str | None:
    """Return the command that shows the existing neighbours of a missing thing."""
    if error.name != "NotFound":
        return None
    context = {name: shlex.quote(str(value)) for name, value in error.context.items()}
    if "namespace" in context:
        return f"`hivemem memory list {context['namespace']}` shows its memories"
    if "resource" in context:
        return (
            f"`hivemem windows list {context['resource']}` shows its windows"
            if "key" in context
            else "`hivemem windows resource-list` shows the resources"
        )
    if "session_id" in context and "name" in context:
        return f"`hivemem artifacts list {context['session_id']}` shows its files"
    if "session_id" in context:
        return "`hivemem sessions list` shows the sessions"
    return "`hivemem dead list` shows the dead letters" if "sequence" in context else None


def interrupted(told: str) -> NoReturn:
    """Say how far a command came before Ctrl-C, and exit."""
    sys.stderr.write(f"{told}\n")
    raise typer.Exit(INTERRUPTED)


def detail_of(settings: Settings, error: HiveError) -> str:
    """Return the text of an error with the option that set the field, before the path of a field within its JSON."""
    path, colon, said = error.detail.partition(":")
    field, _, inner = path.partition(".")
    option = settings.options.get(field)
    if not colon or path != error.context.get("field") or option is None:
        return error.detail
    return f"{option}: {error.detail}" if inner else f"{option}:{said}"
