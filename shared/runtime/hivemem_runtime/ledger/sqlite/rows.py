"""The writer's statements: many rows a statement, because each statement lets go of the interpreter once."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

_ROWS_A_STATEMENT: Final = 64
"""So many sizes there are, and the driver's statement cache holds all of them for every table."""


def insert(connection: sqlite3.Connection, start: str, rows: Sequence[tuple[Any, ...]], end: str = "") -> None:
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
