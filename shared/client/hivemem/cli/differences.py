"""The differences between two versions of a memory, as lines below them in a table."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from hivemem.cli.cells import beginning, dumped
from hivemem.cli.details import hanging
from hivemem.cli.tables import Row
from hivemem.cli.visible import visible
from hivemem_contracts.memory.models import Difference, MemoryVersion
from hivemem_contracts.memory.replies import MemoryChange

SIGNS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
TOO_LARGE: Final = "the differences are too large for one answer: read both versions"
_INDENT: Final = "  "


def instead_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that lines of differences replace."""
    if any(isinstance(row, MemoryVersion) and (row.diff is not None or row.diff_omitted) for row in rows):
        return ("value", "diff", "diff_omitted")
    return ("before", "after", "diff", "values_omitted") if any(isinstance(row, MemoryChange) for row in rows) else ()


def difference_lines(row: Row, width: int) -> list[Text]:
    """Return a line for each difference, such as `~ /a 1 → 2`, `+ /b [1]`, `- /c "text"`."""
    if isinstance(row, MemoryVersion):
        omitted, differences = row.diff_omitted, row.diff or []
    elif isinstance(row, MemoryChange):
        omitted, differences = row.values_omitted, list(_of_change(row))
    else:
        return []
    lines = [Text(f"{_INDENT}{TOO_LARGE}", style="bright_black")] if omitted else []
    for difference in differences:
        sign, colour = SIGNS[difference.change]
        lines += hanging(Text(f"{_INDENT}{sign} ", style=colour), [_text(difference)], width, colour)
    return lines


def _of_change(change: MemoryChange) -> Iterator[Difference]:
    """Return the differences of the values, or the whole value of a memory that exists at one moment only."""
    yield from change.diff
    if change.change == "added" and change.after is not None:
        yield Difference(path="", change="added", after=change.after.value)
    if change.change == "removed" and change.before is not None:
        yield Difference(path="", change="removed", before=change.before.value)


def _text(difference: Difference) -> str:
    before, after = _json(difference.before), _json(difference.after)
    values = {"added": after, "removed": before, "changed": f"{before} → {after}"}[difference.change]
    return f"{visible(difference.path)} {values}".lstrip()


def _json(value: Any) -> str:
    return beginning(visible(dumped(value)))
