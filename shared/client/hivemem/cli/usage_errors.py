"""Errors of the command line that say what was meant: the nearest option, or the place of a global one."""

from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from typer.exceptions import TyperException


@contextmanager
def explained() -> Generator[None]:
    """Say in the error for an unknown option which option is the nearest, or where the option belongs."""
    try:
        yield
    except TyperException as error:
        explain(error)
        raise


def explain(error: Any) -> None:
    # Typer does not export the class of this error, which alone names an option.
    name = getattr(error, "option_name", None)
    context = getattr(error, "ctx", None)
    if name is None or context is None or not hasattr(error, "possibilities"):
        return
    root = context.find_root()
    error.possibilities = None
    if context is not root and name in _options(root.command):
        subcommand = context.command_path.removeprefix(root.command_path).strip()
        error.message = f"{name} goes before the subcommand: {root.command_path} {name} … {subcommand}"
        return
    if nearest := get_close_matches(str(name), _options(context.command), n=1):
        error.message += f". Did you mean {nearest[0]}?"


def _options(command: Any) -> list[str]:
    return [
        name
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
