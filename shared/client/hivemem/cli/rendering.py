"""How results are shown: tables for people, JSON for programs. Works for every reply, whatever its fields are."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hivemem_contracts.identifiers import format_time

LONGEST_CELL: Final = 2_000
READABLE_CELL: Final = 30
COLUMN_GAP: Final = 2


def print_json(value: Any) -> None:
    """One document on one line."""
    sys.stdout.write(orjson.dumps(value, default=_plain).decode() + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"{type(value).__name__} is no JSON")


def print_model(model: BaseModel, more: str = "") -> None:
    """A reply: its plain fields as one table, each list of objects as a table of its own.

    `more` is how the next page of a list is asked for.
    """
    console = Console()
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    cursor = fields.pop("cursor", None)
    lists = {name: value for name, value in fields.items() if _is_rows(value)}
    nested = {name: value for name, value in fields.items() if isinstance(value, BaseModel)}
    plain = {name: value for name, value in fields.items() if name not in lists and name not in nested}
    for inner in nested.values():
        print_model(inner)
    if plain:
        console.print(pairs(plain))
    for name, rows in lists.items():
        print_rows(rows, title=name if len(fields) > 1 else None)
    if cursor and more:
        console.print(Text(f"more: {more} --cursor {cursor}"), soft_wrap=True)


def pairs(fields: Mapping[str, Any]) -> Table:
    """Names on the left, values on the right; what is not there is left out."""
    shown = Table(show_header=False, box=None, pad_edge=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None:
            shown.add_row(name, cell(value))
    return shown


def print_rows(rows: Sequence[BaseModel | Mapping[str, Any]], title: str | None = None) -> None:
    """A table, one row an object, with the columns that hold anything.

    Where the window is too narrow, columns of times and then of nested values are left out, and named below.
    """
    console = Console()
    objects = [_fields(row) for row in rows]
    names = list(dict.fromkeys(name for fields in objects for name in fields))
    columns = {name: [fields.get(name) for fields in objects] for name in names}
    columns = {name: values for name, values in columns.items() if any(_filled(value) for value in values)}
    dropped = _dropped(columns, console.width)
    shown = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    kept = {name: values for name, values in columns.items() if name not in dropped}
    for name in kept:
        shown.add_column(name, overflow="fold")
    for row in zip(*kept.values(), strict=True):
        shown.add_row(*[cell(value, short=True) for value in row])
    console.print(shown if objects else Text("none" if title is None else f"{title}: none"))
    if dropped:
        console.print(Text(f"left out: {', '.join(dropped)} (--json shows all)", style="bright_black"))


def _dropped(columns: Mapping[str, list[Any]], width: int) -> list[str]:
    """What does not fit, the least readable first."""

    def breadth(name: str) -> int:
        longest = max(len(text_of(value, short=True)) for value in columns[name])
        return max(len(name), min(longest, READABLE_CELL)) + COLUMN_GAP

    def of(kind: Any) -> list[str]:
        return [name for name, values in columns.items() if any(isinstance(value, kind) for value in values)]

    left = sum(breadth(name) for name in columns) - width
    dropped: list[str] = []
    for name in [*reversed(of(datetime)), *reversed(of((dict, list, BaseModel)))]:
        if left <= 0:
            break
        dropped.append(name)
        left -= breadth(name)
    return dropped


def _fields(row: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: getattr(row, name) for name in type(row).model_fields} if isinstance(row, BaseModel) else row


def cell(value: Any, *, short: bool = False) -> Text:
    """Text as it is, with nothing in it read as markup."""
    return Text(_cut(text_of(value, short=short)))


def text_of(value: Any, *, short: bool = False) -> str:
    """Words for a value; `short` times have no more than seconds."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" if short else format_time(value)
    return orjson.dumps(value, default=_plain).decode()


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}… ({len(text)} characters; --json shows all)"


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, BaseModel) for item in value)  # pyright: ignore[reportUnknownVariableType]  # any list may come


def _filled(value: Any) -> bool:
    return value is not None and value not in ({}, [], "")
