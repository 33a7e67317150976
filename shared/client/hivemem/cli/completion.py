"""Completion in the shell: commands, options, choices, and names from the fleet.

The shell hands over the words that are typed so far and gets the next word's candidates, one in each line. Nothing
typed is expanded or executed. Names come from other agents, so whatever a shell could take for more than a word is
quoted, or left out.
"""

import asyncio
import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from hivemem.cli.completion_scripts import BREAKS, LINE, WORDS
from hivemem.cli.settings import Settings, client

FLEET_SECONDS: Final = 0.8
"""How long the fleet may take to answer; then there are no candidates."""
_SAFE: Final = re.compile(r"[\w:/.,@%+=-]*")
_END: Final = "\0"


@dataclass
class Typed:
    """The command line up to the word under the cursor."""

    command: Any
    path: list[str] = field(default_factory=list[str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    """The values of the given options by parameter, with the options of the root."""
    unnamed: list[str] = field(default_factory=list[str])
    pending: Any = None
    """The option whose value is being typed."""


def answer(shell: str) -> None:
    """Print the candidates for the words that the shell passes in the environment; nothing in case of any error."""
    with contextlib.suppress(Exception):
        if shell == "bash":
            found = for_bash(os.environ[LINE], os.environ.get(BREAKS, ""))
        else:
            incomplete, _, *words = os.environ[WORDS].split("\n")
            found = (f"{value}\t{told}" if told else value for value, told in candidates(words, incomplete))
        sys.stdout.write("".join(f"{line}\n" for line in found))


def for_bash(line: str, breaks: str) -> Iterator[str]:
    """Return the candidates as bash inserts them: quoted, and without what comes before its last word break."""
    words, quoted = split(line)
    incomplete = words.pop()
    as_typed = re.split(r"\s", line)[-1] == incomplete
    broken = max((incomplete.rfind(mark) for mark in breaks), default=-1) + 1
    if broken and not as_typed and not quoted:
        return
    for value, _ in candidates(words[1:], incomplete):
        if quoted:
            # Within quotes other rules hold, so only words that need none are offered.
            if _SAFE.fullmatch(value):
                yield value
        else:
            rest = value[broken:]
            yield re.sub(r"([^\w:/.,@%+=-])", r"\\\1", rest)


def split(line: str) -> tuple[list[str], bool]:
    """Split a line into words as a shell does, without expanding anything; say whether a quote is open at its end."""
    lexer = shlex.shlex(line + _END, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        return [*words, lexer.token.removesuffix(_END)], True
    words[-1] = words[-1].removesuffix(_END)
    return words, False


def candidates(words: list[str], incomplete: str) -> list[tuple[str, str]]:
    """Return the words that continue the line, each with its description or an empty string."""
    from hivemem.cli.app import app

    root: Any = typer.main.get_command(app)
    typed = walk(root, words)
    if typed is None:
        return []
    found = [(value, told) for value, told in _all(root, typed, incomplete) if value.startswith(incomplete)]
    # A name that looks like an option would be one.
    named = incomplete.startswith("-")
    return [(value, told) for value, told in found if value.isprintable() and (named or not value.startswith("-"))]


def walk(root: Any, words: Iterable[str]) -> Typed | None:
    """Follow the words through the groups to their command; None if there is no such command."""
    typed = Typed(root)
    context = root.make_context("hivemem", [], resilient_parsing=True)
    for word in words:
        name, equals, value = word.partition("=")
        option = _options(typed.command).get(name)
        if typed.pending is not None:
            typed.values[typed.pending.name] = word
            typed.pending = None
        elif option is not None and equals:
            typed.values[option.name] = value
        elif option is not None:
            typed.pending = None if option.is_flag else option
        elif not hasattr(typed.command, "list_commands"):
            typed.unnamed.append(word)
        elif word in typed.command.list_commands(context):
            _, typed.command, _ = typed.command.resolve_command(context, [word])
            typed.path.append(word)
        else:
            return None
    return typed


def _all(root: Any, typed: Typed, incomplete: str) -> Iterable[tuple[str, str]]:
    if typed.pending is not None:
        return _values(root, typed, typed.pending, incomplete)
    name, equals, value = incomplete.partition("=")
    option = _options(typed.command).get(name)
    if option is not None and equals:
        return [(f"{name}={found}", told) for found, told in _values(root, typed, option, value)]
    if incomplete.startswith("-"):
        return [(name, _first_line(option.help)) for name, option in _options(typed.command).items()]
    if hasattr(typed.command, "list_commands"):
        commands = typed.command.commands
        return [(name, _first_line(commands[name].help)) for name in typed.command.list_commands(None)]
    places = [*typed.command.places()] if hasattr(typed.command, "places") else []
    places += [parameter for parameter in typed.command.params if parameter.param_type_name == "argument"]
    free = [place for place in places if place.name not in typed.values]
    for place, word in zip(free, typed.unnamed, strict=False):
        typed.values[place.name] = word
    repeated = free[-1:] if free and free[-1].nargs == -1 else []
    following = free[len(typed.unnamed) :] or repeated
    return _values(root, typed, following[0], incomplete) if following else []


def _values(root: Any, typed: Typed, parameter: Any, incomplete: str) -> list[tuple[str, str]]:
    """Return the values of a parameter: its choices, or names from the fleet."""
    from hivemem.cli.completion_names import NAMES, choices

    found = choices(typed.path, parameter, incomplete)
    if found:
        return [(choice, "") for choice in found]
    names = NAMES.get(parameter.name)
    if names is None:
        return []
    given = {option.name: option.default for option in root.params}
    context = root.make_context("hivemem", _root_words(root, typed), resilient_parsing=True)
    given |= context.params
    settings = Settings(given["url"], given["tenant"], given["agent"], False, FLEET_SECONDS, ())

    async def ask() -> list[tuple[str, str]]:
        async with asyncio.timeout(FLEET_SECONDS), client(settings) as hive:
            return await names(hive, typed.values, incomplete)

    return asyncio.run(ask())


def _root_words(root: Any, typed: Typed) -> list[str]:
    return [
        f"{option.opts[0]}={typed.values[option.name]}"
        for option in root.params
        if option.name in ("url", "tenant", "agent") and option.name in typed.values
    ]


def _options(command: Any) -> dict[str, Any]:
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    return {name: option for option in options for name in (*option.opts, *option.secondary_opts)}


def _first_line(text: str | None) -> str:
    return " ".join((text or "").partition("\n")[0].split()).replace("\\[", "[")
