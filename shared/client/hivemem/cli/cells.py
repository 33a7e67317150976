"""Values as text on one line: for people on a terminal, whole and stable into a pipe."""

from collections.abc import Mapping
from datetime import datetime
from textwrap import wrap
from typing import Any, Final, TypeVar, cast

import orjson
from pydantic import BaseModel
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from hivemem.cli.visible import visible
from hivemem_contracts.identifiers import format_time
from hivemem_contracts.large_values import reference_in

Kind = TypeVar("Kind")
LONGEST: Final = 2_000
"""The characters of one value that a terminal gets."""


def plain(value: Any) -> Any:
    """Return what JSON can hold of a value that it does not know."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"{type(value).__name__} is no JSON")


def dumped(value: Any) -> str:
    return orjson.dumps(value, default=plain).decode()


def whole_text(value: Any, *, json: bool = False) -> str:
    """Return all of a value on one line without tabs, as programs read it."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, str):
        return visible(literal(value) if json else value)
    return visible(dumped(value))


def short_text(value: Any, *, json: bool = False) -> str:
    """Return a value on one line, as people read it; `json` says that it may be any JSON value."""
    if isinstance(value, bool) and not json:
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return clock(value)
    if (large := reference_in(value)) is not None:
        return f"({large.size:,} bytes, sha256 {large.sha256[:12]}…; --json shows all)"
    words = None if json else all_of(value, str)
    return beginning(visible(", ".join(words)) if words else whole_text(value, json=json))


def literal(text: str) -> str:
    """Return a text of a JSON value, in quotes if it would look like nothing or like other JSON without them."""
    try:
        orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return text
    return dumped(text)


def clock(moment: datetime, *, exact: bool = False) -> str:
    """Return a time by the clock of this machine with its offset, a form that every option takes."""
    return moment.astimezone().isoformat(" ", "microseconds" if exact else "seconds").replace("+00:00", "Z")


def beginning(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters; --json shows all)"


def cut(text: str, width: int) -> str:
    """Return a text, or its beginning and `…`, in at most `width` columns of a terminal."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip(" …") + "…"


def folded(text: str, width: int) -> list[str]:
    """Return a text in lines of at most this width. Long words are not broken, because they are ids or addresses."""
    if cell_len(text) == len(text):
        lines = wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
        return lines or [""]
    return [line.plain for line in Text(text).wrap(Console(), max(width, 2))]


def fields_of(row: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: getattr(row, name) for name in type(row).model_fields} if isinstance(row, BaseModel) else row


def all_of(value: object, kind: type[Kind]) -> list[Kind] | None:
    """Return the items of a list if all of them are of this kind, else None."""
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    found = [item for item in items if isinstance(item, kind)]
    return found if len(found) == len(items) else None
