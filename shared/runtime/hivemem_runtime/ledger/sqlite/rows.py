"""The writer's statements: many rows a statement, because each statement lets go of the interpreter once."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

_ROWS_A_STATEMENT: Final = (64, 16, 4, 1)
"""Few distinct sizes, so that the driver's statement cache holds them all."""


def insert(connection: sqlite3.Connection, start: str, rows: Sequence[tuple[Any, ...]], end: str = "") -> None:
    """`start` is everything before VALUES, `end` everything after the rows."""
    done = 0
    for size in _ROWS_A_STATEMENT:
        while len(rows) - done >= size:
            chunk = rows[done : done + size]
            values = [value for row in chunk for value in row]
            connection.execute(_statement(start, end, size, len(chunk[0])), values)
            done += size


@lru_cache(maxsize=512)
def _statement(start: str, end: str, rows: int, columns: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"{start} VALUES {','.join([row] * rows)} {end}"


def marks(count: int) -> str:
    return ",".join("?" * count)
