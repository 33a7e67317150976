"""Reading records, hot and cold. Cold records of a key are always older than its hot ones, so the two never
interleave."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hivemem_runtime.ledger.sqlite.rows import marks
from hivemem_runtime.ledger.sqlite.tables import Table, tag_column
from hivemem_runtime.ledger.stored import StoredRecord, matching, unpack

LATEST: Final = 2**62
"""Above every version and position."""
_SHORT: Final = 64
"""A search scans at most this many records from the end, and bisects longer histories."""
_FIELDS: Final = len(StoredRecord._fields) - 1
"""Of a record's row, before its tags."""


class SqliteSpan(NamedTuple):
    """The part of a key's records that a reader asked for; `after` and `before` are excluded."""

    after: int
    before: int
    limit: int
    reverse: bool = False
    by_position: bool = False
    tag: tuple[str, str] | None = None

    @property
    def direction(self) -> str:
        return "DESC" if self.reverse else "ASC"


def record_from_row(table: Table, row: Sequence[Any]) -> StoredRecord:
    tags = dict(zip(table.entity.tag_fields, row[_FIELDS:], strict=True))
    version, at, actor, cause, traceparent, schema, body, snapshot, position = row[:_FIELDS]
    return StoredRecord(version, at, actor, cause, traceparent, schema, body, snapshot, position, tags)


def key_of(connection: sqlite3.Connection, table: Table, tenant: str, id: str) -> int | None:
    row = connection.execute(f"SELECT key FROM {table.name}_heads WHERE tenant = ? AND id = ?", (tenant, id)).fetchone()
    return None if row is None else int(row[0])


def read_record(connection: sqlite3.Connection, table: Table, key: int, version: int) -> StoredRecord | None:
    """One record, hot or cold."""
    found = read_history(connection, table, key, SqliteSpan(version - 1, version + 1, 1))
    return found[0] if found else None


def read_history(connection: sqlite3.Connection, table: Table, key: int, wanted: SqliteSpan) -> list[StoredRecord]:
    if wanted.tag is not None and (not wanted.by_position or wanted.tag[0] not in table.entity.tag_fields):
        raise AssertionError(f"{table.name} has no tag {wanted.tag[0]!r} by position")
    found: list[StoredRecord] = []
    for read in (_read_hot, _read_cold) if wanted.reverse else (_read_cold, _read_hot):
        if len(found) < wanted.limit:
            found += read(connection, table, key, wanted, wanted.limit - len(found))
    return found


def _read_hot(
    connection: sqlite3.Connection, table: Table, key: int, wanted: SqliteSpan, limit: int
) -> list[StoredRecord]:
    place = "position" if wanted.by_position else "version"
    condition, values = f"key = ? AND {place} > ? AND {place} < ?", [key, wanted.after, wanted.before]
    parameters: list[Any] = list(values)
    if wanted.tag is not None:
        condition += f" AND {tag_column(wanted.tag[0])} = ?"
        parameters.append(wanted.tag[1])
    rows = connection.execute(
        f"SELECT {table.record_columns} FROM {table.name}_records WHERE {condition} "
        f"ORDER BY {place} {wanted.direction} LIMIT ?",
        (*parameters, limit),
    )
    return [record_from_row(table, row) for row in rows]


def _read_cold(
    connection: sqlite3.Connection, table: Table, key: int, wanted: SqliteSpan, limit: int
) -> list[StoredRecord]:
    found: list[StoredRecord] = []
    for chunk in _chunks(connection, table, key, wanted):
        records = matching(
            chunk, after=wanted.after, before=wanted.before, by_position=wanted.by_position, tag=wanted.tag
        )
        found += reversed(records) if wanted.reverse else records
        if len(found) >= limit:
            break
    return found[:limit]


def _chunks(connection: sqlite3.Connection, table: Table, key: int, wanted: SqliteSpan) -> Iterator[list[StoredRecord]]:
    first, last = ("first_position", "last_position") if wanted.by_position else ("first", "last")
    rows = connection.execute(
        f"SELECT chunk FROM {table.name}_cold WHERE key = ? AND {last} > ? AND {first} < ? "
        f"ORDER BY last {wanted.direction}",
        (key, wanted.after, wanted.before),
    )
    for (chunk,) in rows:
        yield unpack(chunk)


def read_version_at(connection: sqlite3.Connection, table: Table, key: int, at: int) -> int:
    """Versions and commit times grow together along a key, so a moment is found by halving."""
    versions = f"FROM {table.name}_records WHERE key = ?"
    low, high = connection.execute(
        f"SELECT (SELECT min(version) {versions}), (SELECT max(version) {versions})", (key, key)
    ).fetchone()
    found = 0
    while low is not None and low <= high:
        middle = (low + high) // 2
        row = connection.execute(
            f"SELECT version, at FROM {table.name}_records WHERE key = ? AND version <= ? "
            "ORDER BY version DESC LIMIT 1",
            (key, middle),
        ).fetchone()
        if row is not None and row[1] <= at:
            found, low = row[0], middle + 1
        else:
            high = (row[0] if row is not None else middle) - 1
    if found:
        return found
    cold = _cold_as_of(connection, table, key, at)
    return cold.version if cold else 0


def read_as_of(
    connection: sqlite3.Connection, table: Table, tenant: str, ids: Sequence[str], at: int
) -> dict[str, StoredRecord]:
    """The last record of each id at a moment: of most by one statement, and few that changed often since by more."""
    name = table.name
    columns = ", ".join(f"r.{column}" for column in table.record_columns.split(", "))
    rows = connection.execute(
        f"SELECT h.id, h.key, h.at <= ? OR h.version <= {_SHORT}, {columns} FROM {name}_heads AS h "
        f"LEFT JOIN {name}_records AS r ON r.key = h.key AND r.version = CASE WHEN h.at <= ? OR h.version <= {_SHORT} "
        f"THEN (SELECT max(version) FROM {name}_records WHERE key = h.key AND at <= ?) END "
        f"WHERE h.tenant = ? AND h.id IN ({marks(len(ids))})",
        (at, at, at, tenant, *ids),
    ).fetchall()
    found: dict[str, StoredRecord | None] = {}
    for id, key, looked_through, *row in rows:
        if row[0] is not None:
            found[id] = record_from_row(table, row)
        elif looked_through:
            found[id] = _cold_as_of(connection, table, key, at)
        else:
            found[id] = read_record(connection, table, key, read_version_at(connection, table, key, at))
    return {id: record for id, record in found.items() if record is not None}


def _cold_as_of(connection: sqlite3.Connection, table: Table, key: int, at: int) -> StoredRecord | None:
    row = connection.execute(
        f"SELECT chunk FROM {table.name}_cold WHERE key = ? AND first_at <= ? ORDER BY last DESC LIMIT 1", (key, at)
    ).fetchone()
    records = [record for record in unpack(row[0]) if record.at <= at] if row else []
    return records[-1] if records else None
