"""Writes the reference of the `hivemem` command between the markers of docs/cli.md, from the command itself.

`python tools/command_reference.py` writes it; `--check` only reports whether it is out of date.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer

from hivemem.cli.app import app
from hivemem.cli.positional_fields import OperationCommand, place_name

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
NAME: Final = "hivemem"

_PART: Final = re.compile(r"(<!-- generated: commands -->\n).*?(<!-- end of commands -->)", re.DOTALL)
_ESCAPED_MARKUP: Final = re.compile(r"\\(?=\[)")
_TOLD_ONCE: Final = {"help", "json"}
"""Options of every command, which the page describes once."""
_COMPLETION: Final = {"install_completion", "show_completion"}
_WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "number",
    float: "number",
    Path: "path",
    list[str]: "text, may be repeated",
    list[int]: "number, may be repeated",
}


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    current = page(text)
    if text == current:
        return 0
    if arguments == ["--check"]:
        print(f"out of date: {PAGE.name}; write it again with `make docs`")
        return 1
    PAGE.write_text(current, encoding="utf-8", newline="\n")
    print(f"written: {PAGE.name}")
    return 0


def page(text: str) -> str:
    """Return the page with an up-to-date reference."""
    assert len(_PART.findall(text)) == 1, f"{PAGE.name} needs its pair of markers exactly once"
    return _PART.sub(lambda found: f"{found[1]}\n{reference()}\n\n{found[2]}", text)


def reference() -> str:
    root: Any = typer.main.get_command(app)
    return "\n\n".join([*_table(_options(root, leave_out=_COMPLETION | {"help"})), *_sections(root, NAME)])


def _sections(group: Any, words: str) -> Iterator[str]:
    context = group.make_context(words, [], resilient_parsing=True)
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        full = f"{words} {name}"
        if hasattr(command, "list_commands"):
            yield from _sections(command, full)
            continue
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        usage = " ".join([full, *(_argument(parameter) for parameter in arguments), *_places(command)])
        yield f"### `{usage}`"
        yield _ESCAPED_MARKUP.sub("", command.help).replace("\n\n", "\n").strip()
        yield from _table(arguments + _options(command, leave_out=_TOLD_ONCE | _COMPLETION))


def _places(command: Any) -> list[str]:
    if not isinstance(command, OperationCommand):
        return []
    names = ((place_name(option), option.required) for option in command.places())
    return [name if required else f"[{name}]" for name, required in names]


def _argument(parameter: Any) -> str:
    name = str(parameter.name).upper()
    return name if parameter.required else f"[{name}]"


def _options(command: Any, leave_out: set[str]) -> list[Any]:
    return [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name not in leave_out
    ]


def _table(parameters: list[Any]) -> Iterator[str]:
    if parameters:
        yield "\n".join(["| option | takes | |", "|---|---|---|", *map(_row, parameters)])


def _word(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(annotation))
    return _WORDS[annotation]


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [_argument(parameter)] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    is_flag = not is_argument and parameter.is_flag
    takes = [] if is_flag else [_word(parameter.type_descriptor.annotation)]
    if parameter.required:
        takes.append("required")
    elif parameter.default not in (None, False):
        takes.append(f"`{parameter.default}` if left out")
    text: str = _ESCAPED_MARKUP.sub("", parameter.help or "")
    if parameter.envvar:
        text += f" Or `{parameter.envvar}`."
    cells = [", ".join(f"`{name}`" for name in names), ", ".join(takes), text.replace("|", "\\|")]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
