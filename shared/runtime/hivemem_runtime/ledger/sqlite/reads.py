"""Reading heads and records. Every statement here is answered by an index."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.ledger.codec import decode_head
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, Index, RecordT, Scalar
from hivemem_runtime.ledger.port import Due, Head, Page
from hivemem_runtime.ledger.sqlite.rows import marks
from hivemem_runtime.ledger.sqlite.schema import column, index_name, tag_column
from hivemem_runtime.ledger.stored import StoredRecord, matching, unpack

RECORD_COLUMNS: Final = (
    "version",
    "at",
    "actor",
    "cause",
    "traceparent",
    "schema",
    "body",
    "snapshot",
    "position",
)
_VARIABLES: Final = 500


def record_columns(entity: AnyEntity) -> str:
    return ", ".join([*RECORD_COLUMNS, *map(tag_column, entity.tag_fields)])


def record_from_row(entity: AnyEntity, row: Sequence[Any]) -> StoredRecord:
    version, at, actor, cause, traceparent, schema, body, snapshot, position, *tags = row
    return StoredRecord(
        version,
        at,
        actor,
        cause,
        traceparent,
        schema,
        body,
        snapshot,
        position,
        dict(zip(entity.tag_fields, tags, strict=True)),
    )


def key_of(connection: sqlite3.Connection, entity: AnyEntity, tenant: str, id: str) -> int | None:
    row = connection.execute(
        f"SELECT key FROM {entity.name}_heads WHERE tenant = ? AND id = ?", (tenant, id)
    ).fetchone()
    return None if row is None else int(row[0])


def read_heads(
    connection: sqlite3.Connection, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]
) -> dict[str, Head[HeadT]]:
    found: dict[str, Head[HeadT]] = {}
    for start in range(0, len(ids), _VARIABLES):
        part = ids[start : start + _VARIABLES]
        rows = connection.execute(
            f"SELECT id, version, at, schema, body FROM {entity.name}_heads "
            f"WHERE tenant = ? AND id IN ({marks(len(part))})",
            (tenant, *part),
        )
        found.update((row[0], _head(entity, row)) for row in rows)
    return found


def _head(entity: Entity[HeadT, RecordT], row: Sequence[Any]) -> Head[HeadT]:
    id, version, at, schema, body = row
    return Head(id, version, at, None if body is None else decode_head(entity, schema, body))


def read_record(connection: sqlite3.Connection, entity: AnyEntity, key: int, version: int) -> StoredRecord | None:
    """One record, hot or cold."""
    row = connection.execute(
        f"SELECT {record_columns(entity)} FROM {entity.name}_records WHERE key = ? AND version = ?", (key, version)
    ).fetchone()
    if row is not None:
        return record_from_row(entity, row)
    row = connection.execute(
        f"SELECT chunk FROM {entity.name}_cold WHERE key = ? AND last >= ? AND first <= ? ORDER BY last LIMIT 1",
        (key, version, version),
    ).fetchone()
    records = unpack(row[0]) if row else []
    return next((record for record in records if record.version == version), None)


def read_history(
    connection: sqlite3.Connection,
    entity: AnyEntity,
    key: int,
    *,
    after: int,
    before: int | None,
    limit: int,
    reverse: bool,
    by_position: bool,
    tag: tuple[str, str] | None,
) -> list[StoredRecord]:
    """Cold records of a key are always older than its hot ones, so the two never interleave."""
    if tag is not None and (not by_position or tag[0] not in entity.tag_fields):
        raise AssertionError(f"{entity.name} has no tag {tag[0]!r} by position")
    found: list[StoredRecord] = []

    def cold() -> None:
        if len(found) >= limit:
            return
        for chunk in _chunks(connection, entity, key, after, before, reverse, by_position):
            records = matching(chunk, after=after, before=before, by_position=by_position, tag=tag)
            found.extend(reversed(records) if reverse else records)
            if len(found) >= limit:
                return

    def hot() -> None:
        if len(found) < limit:
            found.extend(_hot(connection, entity, key, after, before, limit, reverse, by_position, tag))

    for part in (hot, cold) if reverse else (cold, hot):
        part()
    return found[:limit]


def _hot(
    connection: sqlite3.Connection,
    entity: AnyEntity,
    key: int,
    after: int,
    before: int | None,
    limit: int,
    reverse: bool,
    by_position: bool,
    tag: tuple[str, str] | None,
) -> Iterator[StoredRecord]:
    place = "position" if by_position else "version"
    conditions, values = ["key = ?", f"{place} > ?"], [key, after]
    parameters: list[Any] = list(values)
    if before is not None:
        conditions.append(f"{place} < ?")
        parameters.append(before)
    if tag is not None:
        conditions.append(f"{tag_column(tag[0])} = ?")
        parameters.append(tag[1])
    order = "DESC" if reverse else "ASC"
    rows = connection.execute(
        f"SELECT {record_columns(entity)} FROM {entity.name}_records WHERE {' AND '.join(conditions)} "
        f"ORDER BY {place} {order} LIMIT ?",
        (*parameters, limit),
    )
    return (record_from_row(entity, row) for row in rows)


def _chunks(
    connection: sqlite3.Connection,
    entity: AnyEntity,
    key: int,
    after: int,
    before: int | None,
    reverse: bool,
    by_position: bool,
) -> Iterator[list[StoredRecord]]:
    first, last = ("first_position", "last_position") if by_position else ("first", "last")
    rows = connection.execute(
        f"SELECT chunk FROM {entity.name}_cold WHERE key = ? AND {last} > ? AND {first} < ? "
        f"ORDER BY last {'DESC' if reverse else 'ASC'}",
        (key, after, before if before is not None else 2**62),
    )
    for (chunk,) in rows:
        yield unpack(chunk)


def read_version_at(connection: sqlite3.Connection, entity: AnyEntity, key: int, at: int) -> int:
    """Versions and commit times grow together along a key, so a moment is found by halving."""
    versions = f"FROM {entity.name}_records WHERE key = ?"
    low, high = connection.execute(
        f"SELECT (SELECT min(version) {versions}), (SELECT max(version) {versions})", (key, key)
    ).fetchone()
    found = 0
    while low is not None and low <= high:
        middle = (low + high) // 2
        row = connection.execute(
            f"SELECT version, at FROM {entity.name}_records WHERE key = ? AND version <= ? "
            "ORDER BY version DESC LIMIT 1",
            (key, middle),
        ).fetchone()
        if row is not None and row[1] <= at:
            found, low = row[0], middle + 1
        else:
            high = (row[0] if row is not None else middle) - 1
    return found or _cold_version_at(connection, entity, key, at)


def _cold_version_at(connection: sqlite3.Connection, entity: AnyEntity, key: int, at: int) -> int:
    row = connection.execute(
        f"SELECT chunk FROM {entity.name}_cold WHERE key = ? AND first_at <= ? ORDER BY last DESC LIMIT 1", (key, at)
    ).fetchone()
    return max((record.version for record in unpack(row[0]) if record.at <= at), default=0) if row else 0


def find_statement(
    entity: AnyEntity,
    index: Index,
    tenant: str,
    equals: Mapping[str, Scalar],
    low: Scalar,
    high: Scalar,
    reverse: bool,
    cursor: str | None,
    limit: int,
) -> tuple[str, list[Any]]:
    """The only query there is, for one page and one more."""
    if set(equals) != set(index.equals):
        raise AssertionError(f"index {index.name} of {entity.name} wants {index.equals}, got {tuple(equals)}")
    order = column(index.order)
    conditions = ["tenant = ?", *(f"{column(field)} = ?" for field in index.equals), f"{order} IS NOT NULL"]
    values: list[Any] = [tenant, *(equals[field] for field in index.equals)]
    if index.only:
        conditions.append(f"{column(index.only)} = 1")
    if low is not None:
        conditions.append(f"{order} >= ?")
        values.append(low)
    if high is not None:
        conditions.append(f"{order} < ?")
        values.append(high)
    if cursor is not None:
        name, place, id = decode_cursor(cursor, (str, (int, str), str))
        if name != index.name:
            raise InvalidRequest("cursor: it belongs to another list", field="cursor")
        conditions.append(f"({order}, id) {'<' if reverse else '>'} (?, ?)")
        values += [place, id]
    direction = "DESC" if reverse else "ASC"
    statement = (
        f"SELECT id, version, at, schema, body, {order} FROM {entity.name}_heads "
        f"INDEXED BY {index_name(entity, index)} WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order} {direction}, id {direction} LIMIT ?"
    )
    return statement, [*values, limit + 1]


def read_found(
    connection: sqlite3.Connection,
    entity: Entity[HeadT, RecordT],
    index: Index,
    statement: str,
    values: Sequence[Any],
    limit: int,
) -> Page[Head[HeadT]]:
    rows = connection.execute(statement, values).fetchall()
    items = [_head(entity, row[:5]) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(items, encode_cursor(index.name, last[5], last[0]) if last else None)


def read_due(connection: sqlite3.Connection, entity: AnyEntity, older_than: int, limit: int) -> list[Due]:
    rows = connection.execute(
        "SELECT tenant, id, announced, version, body IS NULL, at, actor, cause "
        f"FROM {entity.name}_heads INDEXED BY {entity.name}_due WHERE version > announced AND at < ? "
        "ORDER BY at LIMIT ?",
        (older_than, limit),
    )
    return [
        Due(tenant, entity.name, id, announced, version, bool(erased), at, actor or "", cause)
        for tenant, id, announced, version, erased, at, actor, cause in rows
    ]
