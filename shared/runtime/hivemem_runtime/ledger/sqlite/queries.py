"""Reading heads: by key, by a declared index, and those with something to announce. All of it is answered by an
index."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.ledger.codec import decode_head
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, Index, RecordT, Scalar
from hivemem_runtime.ledger.port import Covered, Due, Head, Page, QueryKind
from hivemem_runtime.ledger.sqlite.rows import marks
from hivemem_runtime.ledger.sqlite.tables import (
    PRESENT,
    column,
    covering_column,
    given_back,
    index_name,
    needs_present,
)

_IDS_AT_ONCE: Final = 500
_HEAD: Final = ("id", "version", "at", "schema", "body")


@dataclass(frozen=True, slots=True)
class SqliteHeadQuery:
    """Heads by one index: `equals`, `low <= order < high`, from where another page ended."""

    entity: AnyEntity
    tenant: str
    index: Index
    equals: Mapping[str, Scalar]
    low: Scalar
    high: Scalar
    reverse: bool = False
    cursor: str | None = None

    @property
    def order(self) -> str:
        return "id" if self.index.order is None else column(self.index.order)

    def page(self, columns: Sequence[str], limit: int) -> tuple[str, list[Any]]:
        """The statement for one page and one row more, each with the order in front."""
        direction = "DESC" if self.reverse else "ASC"
        by = f"id {direction}" if self.index.order is None else f"{self.order} {direction}, id {direction}"
        source, values = self._source()
        return f"SELECT {', '.join([self.order, *columns])} {source} ORDER BY {by} LIMIT ?", [*values, limit + 1]

    def count(self, limit: int | None = None) -> tuple[str, list[Any]]:
        source, values = self._source()
        if limit is None:
            return f"SELECT count(*) {source}", values
        return f"SELECT count(*) FROM (SELECT 1 {source} LIMIT ?)", [*values, limit]

    def cursor_after(self, order: Any, id: str) -> str:
        name = self.index.name
        return encode_cursor(name, id) if self.index.order is None else encode_cursor(name, order, id)

    def _source(self) -> tuple[str, list[Any]]:
        if set(self.equals) != set(self.index.equals):
            wants, got = self.index.equals, tuple(self.equals)
            raise AssertionError(f"index {self.index.name} of {self.entity.name} wants {wants}, got {got}")
        conditions = ["tenant = ?", *(f"{column(field)} = ?" for field in self.index.equals)]
        values: list[Any] = [self.tenant, *(self.equals[field] for field in self.index.equals)]
        if self.index.order is not None:
            conditions.append(f"{self.order} IS NOT NULL")
        if self.index.only:
            conditions.append(f"{column(self.index.only)} = 1")
        if needs_present(self.index):
            conditions.append(f"{PRESENT} = 1")
        for condition, value in self._bounds():
            conditions.append(condition)
            values += value
        table = f"{self.entity.name}_heads INDEXED BY {index_name(self.entity, self.index)}"
        return f"FROM {table} WHERE {' AND '.join(conditions)}", values

    def _bounds(self) -> list[tuple[str, tuple[Any, ...]]]:
        """One at each end: of two, SQLite would seek by one and look through everything up to the other."""
        low, high, order = self.low, self.high, self.order
        bounds: list[tuple[str, tuple[Any, ...]]] = []
        if self.cursor is not None:
            place = self._place(self.cursor)
            sign = "<" if self.reverse else ">"
            bounds.append((f"({order}, id) {sign} (?, ?)", place) if len(place) == 2 else (f"id {sign} ?", place))
            if not self.reverse and _at_least(place[0], low):
                low = None
            if self.reverse and _at_least(high, place[0]):
                high = None
        if low is not None:
            bounds.append((f"{order} >= ?", (low,)))
        if high is not None:
            bounds.append((f"{order} < ?", (high,)))
        return bounds

    def _place(self, cursor: str) -> tuple[Any, ...]:
        kinds: tuple[type | tuple[type, ...], ...] = (str,) if self.index.order is None else ((int, str), str)
        name, *place = decode_cursor(cursor, (str, *kinds))
        if name != self.index.name:
            raise InvalidRequest("cursor: it belongs to another list", field="cursor")
        return tuple(place)


def _at_least(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value >= other)


def read_heads(
    connection: sqlite3.Connection, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]
) -> dict[str, Head[HeadT]]:
    found: dict[str, Head[HeadT]] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        part = ids[start : start + _IDS_AT_ONCE]
        rows = connection.execute(
            f"SELECT {', '.join(_HEAD)} FROM {entity.name}_heads WHERE tenant = ? AND id IN ({marks(len(part))})",
            (tenant, *part),
        )
        found.update((row[0], _head(entity, row)) for row in rows)
    return found


def _head(entity: Entity[HeadT, RecordT], row: Sequence[Any]) -> Head[HeadT]:
    id, version, at, schema, body = row
    return Head(id, version, at, None if body is None else decode_head(entity, schema, body))


def find_heads(
    connection: sqlite3.Connection, entity: Entity[HeadT, RecordT], wanted: SqliteHeadQuery, limit: int
) -> Page[Head[HeadT]]:
    rows = connection.execute(*wanted.page(_HEAD, limit)).fetchall()
    return Page([_head(entity, row[1:]) for row in rows[:limit]], _cursor(wanted, rows, limit))


def find_covered(connection: sqlite3.Connection, wanted: SqliteHeadQuery, limit: int) -> Page[Covered]:
    fields = wanted.index.covering
    rows = connection.execute(*wanted.page(_covered_columns(wanted.index), limit)).fetchall()
    items = [
        Covered(id, {field: given_back(value) for field, value in zip(fields, values, strict=True)})
        for _, id, *values in rows[:limit]
    ]
    return Page(items, _cursor(wanted, rows, limit))


def _cursor(wanted: SqliteHeadQuery, rows: Sequence[Sequence[Any]], limit: int) -> str | None:
    if limit <= 0 or len(rows) <= limit:
        return None
    order, id = rows[limit - 1][:2]
    return wanted.cursor_after(order, id)


def count_heads(connection: sqlite3.Connection, wanted: SqliteHeadQuery, limit: int | None = None) -> int:
    """Return how many heads match, counting up to `limit`."""
    row = connection.execute(*wanted.count(limit)).fetchone()
    return int(row[0])


def explain(connection: sqlite3.Connection, wanted: SqliteHeadQuery, query: QueryKind) -> list[str]:
    columns = _covered_columns(wanted.index) if query == "covered" else _HEAD
    statement, values = wanted.count() if query == "count" else wanted.page(columns, 10)
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()]


def _covered_columns(index: Index) -> list[str]:
    return ["id", *map(covering_column, index.covering)]


def read_tenants(connection: sqlite3.Connection, entity: AnyEntity) -> list[str]:
    """From one tenant to the next in the index of ids, however many ids each has."""
    heads = f"{entity.name}_heads"
    rows = connection.execute(
        f"WITH RECURSIVE found (tenant) AS (SELECT min(tenant) FROM {heads} UNION ALL "
        f"SELECT (SELECT min(tenant) FROM {heads} WHERE tenant > found.tenant) FROM found "
        "WHERE found.tenant IS NOT NULL) SELECT tenant FROM found WHERE tenant IS NOT NULL"
    )
    return [str(row[0]) for row in rows]


def read_due(connection: sqlite3.Connection, entity: AnyEntity, older_than: int, limit: int) -> list[Due]:
    rows = connection.execute(
        "SELECT tenant, id, announced, version, body IS NULL, at, actor, cause "
        f"FROM {entity.name}_heads INDEXED BY {entity.name}_due WHERE version > announced AND at < ? "
        "ORDER BY at LIMIT ?",
        (older_than, limit),
    )
    return [
        Due(tenant, entity.name, id, announced, version, bool(erased), at, *((actor, cause) if erased else ()))
        for tenant, id, announced, version, erased, at, actor, cause in rows
    ]
