"""The writer's statements: many rows a statement, because each statement lets go of the interpreter once.

They fail where they are, without taking back their first rows, because whatever fails is rolled back as a whole: to be
able to take back a statement alone, SQLite would copy every page before it is changed, which doubles its work.
"""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

_ROWS_A_STATEMENT: Final = 64
"""So many sizes there are, and the driver's statement cache holds all of them for every table."""


def write(connection: sqlite3.Connection, start: str, rows: Sequence[tuple[Any, ...]], end: str = "") -> None:
    """`start` is everything before VALUES, `end` everything after the rows."""
    for done in range(0, len(rows), _ROWS_A_STATEMENT):
        chunk = rows[done : done + _ROWS_A_STATEMENT]
        values = [value for row in chunk for value in row]
        connection.execute(_statement(start, end, len(chunk), len(chunk[0])), values)


@lru_cache(maxsize=1024)
def _statement(start: str, end: str, rows: int, columns: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"{start} VALUES {','.join([row] * rows)} {end}"


def marks(count: int) -> str:
    return ",".join("?" * count)
