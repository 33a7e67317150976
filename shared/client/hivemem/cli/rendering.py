"""Shows results: to people as tables and headings, to programs as whole lines or JSON. It works for every reply."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO, cast

from pydantic import BaseModel
from rich.text import Text

from hivemem.cli import terminal
from hivemem.cli.cells import all_of, dumped, fields_of, whole_text
from hivemem.cli.columns import columns_of, takes_json
from hivemem.cli.details import detail_lines
from hivemem.cli.differences import difference_lines, instead_of
from hivemem.cli.tables import table_lines
from hivemem.cli.visible import visible

LISTS: Final = ("items", "results")
"""A reply with one of these fields is a list; its other fields are notes about it."""


def print_json(value: Any, file: TextIO | None = None) -> None:
    """Print one document on one line, on standard output unless another file is given."""
    _write(dumped(value), file)


def print_reply(reply: BaseModel, more: str = "", asked: Collection[str] = ()) -> None:
    """Show a reply: a list as rows, an object as fields.

    `more` is the command for the next page of a list. Empty lists within an object are shown if their name is `asked`.
    """
    name = next((name for name in LISTS if isinstance(getattr(reply, name, None), list)), None)
    if name is None:
        print_fields(reply, asked)
        return
    print_rows(getattr(reply, name))
    notes = {field: value for field, value in fields_of(reply).items() if value and field not in (name, "cursor")}
    if terminal.is_there():
        terminal.show(detail_lines(notes, terminal.width()))
    else:
        print_notes(f"{field}: {whole_text(value)}" for field, value in notes.items())
    if more:
        print_notes([f"more: {more}"])


def print_rows(rows: Sequence[Any], hidden: Collection[str] = (), below: Sequence[Sequence[Text]] = ()) -> None:
    """Show a list: a table with the most important columns, or all fields of each row on a line, separated by tabs.

    A terminal gets the lines of `below` under each row, or else its differences, and no `hidden` columns.
    """
    if not terminal.is_there():
        for row in rows:
            _write("\t".join(_whole_cells(row)))
    elif not rows:
        terminal.show([Text("none")])
    elif not isinstance(rows[0], BaseModel | Mapping):
        terminal.show(Text(visible(str(row))) for row in rows)
    else:
        width = terminal.width()
        lines = below or [difference_lines(row, width) for row in rows]
        terminal.show(table_lines(rows, width, (*hidden, *instead_of(rows)), lines))


def print_fields(shown: BaseModel | Mapping[str, Any], asked: Collection[str] = ()) -> None:
    """Show an object: a line for each field, with headings over nested objects, or dotted names in a pipe."""
    if terminal.is_there():
        terminal.show(detail_lines(shown, terminal.width(), asked))
        return
    for name, cells in _whole_fields(shown):
        _write("\t".join((name, *cells)))


def print_notes(notes: Iterable[str]) -> None:
    """Print lines about a result: below it on a terminal, else on standard error, out of a pipe."""
    for note in notes:
        _write(visible(note), None if terminal.is_there() else sys.stderr)


def _whole_cells(row: Any) -> list[str]:
    """Return the values of all fields, in an order that does not depend on the values."""
    if isinstance(row, BaseModel):
        return [whole_text(getattr(row, name), json=takes_json(row, name)) for name in columns_of(type(row))]
    values: list[Any] = list(cast("Mapping[str, Any]", row).values()) if isinstance(row, Mapping) else [row]
    return [whole_text(value) for value in values]


def _whole_fields(shown: BaseModel | Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the cells of each line of an object; a list within it has a line for each item."""
    for name, value in fields_of(shown).items():
        if isinstance(value, BaseModel):
            yield from _whole_fields(value, f"{prefix}{name}.")
        elif (models := all_of(value, BaseModel)) is not None:
            yield from ((prefix + name, _whole_cells(model)) for model in models)
        else:
            yield prefix + name, [whole_text(value, json=takes_json(shown, name))]


def _write(line: str, file: TextIO | None = None) -> None:
    target = sys.stdout if file is None else file
    target.write(line + "\n")
    target.flush()
