"""Shows results: tables for people, JSON for programs. It works for every reply, whatever its fields are."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TextIO

import orjson
from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hivemem_contracts.identifiers import format_time
from hivemem_contracts.memory.models import Difference

LONGEST_CELL: Final = 2_000
READABLE_CELL: Final = 30
COLUMN_GAP: Final = 3
SHORT_DIGEST: Final = 12
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def print_json(value: Any, file: TextIO | None = None) -> None:
    """Print one document on one line, on standard output unless another file is given."""
    target = sys.stdout if file is None else file
    target.write(orjson.dumps(value, default=_plain).decode() + "\n")
    target.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"{type(value).__name__} is no JSON")


def print_model(model: BaseModel, more: str = "") -> None:
    """Show a reply: its plain fields as one table, each list of objects as a table of its own, texts that are its only
    field one per line.

    `more` is the command for the next page of a list.
    """
    console = Console()
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    fields.pop("cursor", None)
    lists = {name: value for name, value in fields.items() if _is_list_of(value, BaseModel)}
    nested = {name: value for name, value in fields.items() if isinstance(value, BaseModel)}
    plain = {name: value for name, value in fields.items() if name not in lists and name not in nested}
    for inner in nested.values():
        print_model(inner)
    if len(fields) == 1 and (texts := fields.get("items")) and _is_list_of(texts, str):
        console.print(Text("\n".join(texts)), soft_wrap=True)
    elif plain:
        console.print(pairs(plain))
    for name, rows in lists.items():
        print_rows(rows, title=name if len(fields) > 1 else None)
    if more:
        console.print(Text(f"more: {more}"), soft_wrap=True)


def pairs(fields: Mapping[str, Any]) -> Table:
    """Show names on the left and values on the right, without missing values."""
    shown = Table(show_header=False, box=None, pad_edge=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None:
            shown.add_row(name, cell(value))
    return shown


def print_rows(rows: Sequence[BaseModel | Mapping[str, Any]], title: str | None = None) -> None:
    """Show a table with a row for each object and a column for each field with a value.

    In a narrow window, values common to all rows are printed once below. Then columns are left out, and named below:
    digests, times, secondary ids, and at last nested values.
    """
    console = Console()
    objects = [_fields(row) for row in rows]
    names = list(dict.fromkeys(name for fields in objects for name in fields))
    columns = {name: [fields.get(name) for fields in objects] for name in names}
    columns = {name: values for name, values in columns.items() if any(_filled(value) for value in values)}
    same = _same(columns, console.width)
    kept = {name: values for name, values in columns.items() if name not in same}
    dropped = _dropped(kept, console.width)
    shown = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    kept = {name: values for name, values in kept.items() if name not in dropped}
    for name in kept:
        shown.add_column(name, overflow="fold")
    for row in zip(*kept.values(), strict=True):
        shown.add_row(*[cell(value, short=True) for value in row])
    console.print(shown if objects else Text("none" if title is None else f"{title}: none"))
    if same:
        told = ", ".join(f"{name} {text}" for name, text in same.items())
        console.print(Text(f"in all rows: {told}", style="bright_black"))
    if dropped:
        console.print(Text(f"left out: {', '.join(dropped)} (--json shows all)", style="bright_black"))


def _breadth(name: str, values: Sequence[Any]) -> int:
    longest = max(len(line) for value in values for line in text_of(value, short=True).split("\n"))
    return max(len(name), min(longest, READABLE_CELL)) + COLUMN_GAP


def _excess(columns: Mapping[str, Sequence[Any]], width: int) -> int:
    return sum(_breadth(name, values) for name, values in columns.items()) - width


def _same(columns: Mapping[str, Sequence[Any]], width: int) -> dict[str, str]:
    """Return the columns that need no room of their own: short texts that are equal in every row."""
    if _excess(columns, width) <= 0:
        return {}
    texts = {name: {text_of(value, short=True) for value in values} for name, values in columns.items()}
    same = {name: next(iter(found)) for name, found in texts.items() if len(found) == 1 and len(columns[name]) > 1}
    return {name: text for name, text in same.items() if len(text) <= READABLE_CELL}


def _dropped(columns: Mapping[str, Sequence[Any]], width: int) -> list[str]:
    """Return the columns that do not fit, the least readable first."""

    def of(kind: Callable[[Any], bool]) -> list[str]:
        return [name for name, values in columns.items() if any(kind(value) for value in values)]

    times = of(lambda value: isinstance(value, datetime))
    ids = [name for name in of(_is_id) if name != next(iter(columns))]
    whole = of(lambda value: isinstance(value, BaseModel))
    nested = of(lambda value: isinstance(value, (dict, list)))
    left = _excess(columns, width)
    dropped: list[str] = []
    for name in [*of(_is_digest), *times[:-1], *reversed(ids), *times[-1:], *reversed(whole), *reversed(nested)]:
        if left <= 0:
            break
        dropped.append(name)
        left -= _breadth(name, columns[name])
    return dropped


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ULID.fullmatch(value) is not None


def _fields(row: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: getattr(row, name) for name in type(row).model_fields} if isinstance(row, BaseModel) else row


def cell(value: Any, *, short: bool = False) -> Text:
    """Return text without interpreting markup in it."""
    return Text(_cut(text_of(value, short=short)))


def text_of(value: Any, *, short: bool = False) -> str:
    """Return a value as text; `short` cuts times to seconds, and digests to their beginning."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"{value[:SHORT_DIGEST]}…" if short and _is_digest(value) else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" if short else format_time(value)
    if value and _is_list_of(value, Difference):
        return "\n".join(map(_difference, value))
    return orjson.dumps(value, default=_plain).decode()


def _difference(difference: Difference) -> str:
    """Return a difference as text, such as `~ /a 1 → 2`, `+ /b [1]`, `- /c "text"`."""
    before, after = text_of([difference.before])[1:-1], text_of([difference.after])[1:-1]
    sign, what = {"added": ("+", after), "removed": ("-", before), "changed": ("~", f"{before} → {after}")}[
        difference.change
    ]
    return " ".join(filter(None, (sign, difference.path, what)))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}… ({len(text)} characters; --json shows all)"


def _is_list_of(value: Any, kind: type[BaseModel] | type[str]) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)  # pyright: ignore[reportUnknownVariableType]  # any list may come


def _filled(value: Any) -> bool:
    return value is not None and value is not False and value not in ({}, [], "")
