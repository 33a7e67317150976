"""Errors of the command line: first what is wrong and what was meant, then the usage."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from typer.exceptions import TyperException

from hivemem.cli.visible import visible
from hivemem_contracts.nearest_name import nearest_name


@contextmanager
def explained() -> Generator[None]:
    """Report an error of the command line, and exit."""
    try:
        yield
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # Typer, which does not export it, has shown the help
            raise
        explain(error)
        context: Any = getattr(error, "ctx", None)
        sys.stderr.write(f"{visible(error.format_message())}\n")
        if context is not None:
            sys.stderr.write(f"{context.get_usage()}\nhint: `{context.command_path} --help` describes the options\n")
        raise typer.Exit(error.exit_code) from None


def explain(error: Any) -> None:
    """Name the refused value, and for an unknown option the nearest one, or the place of a global one."""
    if refused := getattr(error.__cause__, "errors", None):
        error.message += f", got {refused()[0]['input']!r}"
    # Typer does not export the class of this error, which alone names an option.
    name = getattr(error, "option_name", None)
    context = getattr(error, "ctx", None)
    if name is None or context is None or not hasattr(error, "possibilities"):
        return
    root = context.find_root()
    error.possibilities = None
    if context is not root and name in option_names(root.command):
        subcommand = context.command_path.removeprefix(root.command_path).strip()
        error.message = f"{name} goes before the subcommand: {root.command_path} {name} … {subcommand}"
        return
    if nearest := nearest_name(str(name), option_names(context.command)):
        error.message += f". Did you mean {nearest}?"


def option_names(command: Any) -> list[str]:
    return [
        name
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
