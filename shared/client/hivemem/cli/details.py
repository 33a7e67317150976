"""One object for a terminal: a line for each field, and a heading over each object within."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel
from rich.cells import cell_len
from rich.text import Text

from hivemem.cli.cells import all_of, beginning, clock, fields_of, folded, short_text
from hivemem.cli.columns import BULK, ONE_OF, takes_json
from hivemem.cli.tables import table_lines
from hivemem.cli.visible import visible, visible_lines
from hivemem_contracts.large_values import is_reference

INDENT: Final = 2
DEEPEST: Final = 4
"""The levels of headings; what is deeper stays on one line."""
WIDEST_NAME: Final = 30


def detail_lines(
    shown: BaseModel | Mapping[str, Any], width: int, asked: Collection[str] = (), *, json: bool = False, depth: int = 0
) -> list[Text]:
    """Return the lines of an object; `json` says that its fields are any JSON.

    Fields of replies without a value are not shown, nor are empty lists, unless their name is `asked`.
    """
    fields = dict(fields_of(shown)) if json else _told(shown, asked)
    inline = [cell_len(visible(name)) for name, value in fields.items() if not _is_nested(value, depth)]
    pad = max((width for width in inline if width <= WIDEST_NAME), default=0)
    lines: list[Text] = []
    for name, value in fields.items():
        heading = Text(" " * INDENT * depth).append(beginning(visible(name)), style="bold")
        if not _is_nested(value, depth):
            label = heading.append(" " * (INDENT + max(0, pad - cell_len(visible(name)))))
            lines += hanging(label, _texts(name, value, json=json or takes_json(shown, name)), width)
            continue
        lines.append(heading)
        if models := all_of(value, BaseModel):
            rows = table_lines(models, width - INDENT * (depth + 1))
            lines += [Text(" " * INDENT * (depth + 1)).append_text(line) for line in rows]
        else:
            lines += detail_lines(value, width, asked, json=isinstance(value, Mapping), depth=depth + 1)
    return lines


def _told(shown: BaseModel | Mapping[str, Any], asked: Collection[str]) -> dict[str, Any]:
    """Return the fields of a reply that say something: others than their defaults, and a null in place of any JSON."""
    fields = fields_of(shown)
    choices = ONE_OF.get(type(shown).__name__, ())
    chosen = [name for name in choices if fields[name] is not None]
    return {
        name: value
        for name, value in fields.items()
        if (not _is_default(shown, name, value) or takes_json(shown, name))
        and (value != [] or name in asked)
        and (name not in choices or not chosen or name in chosen)
    }


def _is_default(shown: BaseModel | Mapping[str, Any], name: str, value: Any) -> bool:
    """Return whether a value is missing, or is the false of a field that is false where there is nothing to say."""
    falsehood = isinstance(shown, BaseModel) and type(shown).model_fields[name].default is False
    return value is None or (value is False and falsehood)


def hanging(label: Text, lines: Sequence[str], width: int, style: str = "none") -> list[Text]:
    """Return lines beside a label, folded, each below the first one; under the label if that leaves no room."""
    if label.cell_len > max(width * 2 // 3, 2 * INDENT):
        return [label, *hanging(Text(" " * 2 * INDENT), lines, width, style)]
    margin = " " * label.cell_len
    parts = [part for line in lines for part in folded(line, width - len(margin))]
    return [(Text(margin) if at else label.copy()).append(part, style=style) for at, part in enumerate(parts)]


def _texts(name: str, value: Any, *, json: bool) -> list[str]:
    """Return the lines of a value."""
    if isinstance(value, datetime):
        return [clock(value, exact=True)]
    if isinstance(value, str) and name in BULK:
        return [f"({len(value):,} characters; --json shows all)"]
    if isinstance(value, str) and "\n" in value:
        return visible_lines(beginning(value))
    if value is None:
        return ["null"]
    if value == [] and not json:
        return ["none"]
    return [short_text(value, json=json)]


def _is_nested(value: Any, depth: int) -> bool:
    """Return whether a value has a heading, and lines of its own."""
    if is_reference(value):
        return False
    filled = isinstance(value, BaseModel) or bool(all_of(value, BaseModel)) or (isinstance(value, dict) and value != {})
    return filled and depth < DEEPEST
