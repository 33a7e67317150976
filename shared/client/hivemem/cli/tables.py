"""Tables for a terminal: one line for each row, as many columns as the window has room for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from rich.cells import cell_len
from rich.text import Text

from hivemem.cli.cells import cut, fields_of, folded, short_text
from hivemem.cli.columns import columns_of, is_flexible, takes_json
from hivemem.cli.visible import visible

GAP: Final = 2
FLEXIBLE: Final = 30
"""The least width of a column whose values may be cut."""
FEWEST: Final = 3
"""The columns that a table keeps, even if long ids then reach over their columns."""

Row = BaseModel | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    cells: list[str]
    flexible: bool
    right: bool

    @property
    def natural(self) -> int:
        return max(map(cell_len, (self.name, *self.cells)))

    @property
    def least(self) -> int:
        return min(self.natural, FLEXIBLE) if self.flexible else self.natural

    @property
    def narrow(self) -> int:
        """The width that most cells need. The others reach over the next columns, so that one long id does not cost
        every row its value."""
        widths = sorted(map(cell_len, self.cells))
        return min(self.least, max(cell_len(self.name), widths[3 * (len(widths) - 1) // 4]))


def table_lines(
    rows: Sequence[Row], width: int, hidden: Collection[str] = (), below: Sequence[Sequence[Text]] = ()
) -> list[Text]:
    """Return the lines of a table; `below` has the lines under each row, such as the differences of a version.

    Columns without a value are not shown; columns without room are named below the table.
    """
    columns = _columns(rows, hidden)
    widths = _fitting(columns, width)
    kept = columns[: len(widths)]
    lines = [
        Text(_joined([column.name for column in kept], kept, widths, width), style="bold"),
        Text("─" * min(sum(widths) + GAP * (len(widths) - 1), width), style="bright_black"),
    ]
    for number in range(len(rows)):
        lines.append(Text(_joined([column.cells[number] for column in kept], kept, widths, width)))
        lines += below[number] if below else ()
    if len(kept) < len(columns):
        left_out = ", ".join(column.name for column in columns[len(kept) :])
        note = folded(f"left out: {left_out} (--json shows all)", width)
        lines += [Text(line, style="bright_black") for line in note]
    return lines


def _columns(rows: Sequence[Row], hidden: Collection[str]) -> list[_Column]:
    objects = [fields_of(row) for row in rows]
    model = type(rows[0])
    names = columns_of(model) if issubclass(model, BaseModel) else list(objects[0])
    found: list[_Column] = []
    for name in names:
        values = [fields.get(name) for fields in objects]
        if name in hidden or not any(_filled(value) for value in values):
            continue
        json = takes_json(rows[0], name)
        numbers = all(value is None or type(value) in (int, float) for value in values)
        texts = [short_text(value, json=json) for value in values]
        found.append(_Column(visible(name), texts, json or is_flexible(name, values), numbers and not json))
    return found


def _fitting(columns: Sequence[_Column], width: int) -> list[int]:
    """Return the widths of the columns that fit, the most important ones."""
    widths = _first([column.least for column in columns], width)
    if len(widths) < min(FEWEST, len(columns)):
        widths = _first([column.narrow for column in columns], width)
    for at, column in sorted(enumerate(columns[: len(widths)]), key=lambda pair: not pair[1].flexible):
        widths[at] += max(0, min(column.natural - widths[at], width - _total(widths)))
    return widths


def _first(widths: list[int], width: int) -> list[int]:
    """Return the widths of the first columns that fit, at least one."""
    return next((widths[:count] for count in range(len(widths), 1, -1) if _total(widths[:count]) <= width), widths[:1])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _joined(cells: Sequence[str], columns: Sequence[_Column], widths: Sequence[int], width: int) -> str:
    """Return the line of a row. An id that is wider than its column stays whole, at the cost of the cells after it."""
    line, over = "", 0
    for cell, column, room in zip(cells, columns, widths, strict=True):
        left = max(room - over, 1)
        shown = cut(cell, left) if column.flexible else cell
        space = " " * max(0, left - cell_len(shown))
        over = max(0, over - room + cell_len(shown + space))
        line += (space + shown if column.right else shown + space) + " " * GAP
    return cut(line.rstrip(), width)


def _filled(value: Any) -> bool:
    return value is not None and value is not False and value not in ({}, [], "")
