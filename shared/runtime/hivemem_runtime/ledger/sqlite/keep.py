"""What the writer does besides writes: marks, cold storage, erasure, forgetting request ids."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from hivemem_contracts.errors import RevisionConflict, Unavailable
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.port import Committed
from hivemem_runtime.ledger.sqlite.cache import HeadKey
from hivemem_runtime.ledger.sqlite.history import record_from_row
from hivemem_runtime.ledger.sqlite.requests import spend, spend_stamps, split, still_known
from hivemem_runtime.ledger.sqlite.tables import Table
from hivemem_runtime.ledger.sqlite.writer import Context
from hivemem_runtime.ledger.stored import CHUNK_RECORDS, StoredRecord, pack, unpack

_PURGED_AT_ONCE: Final = 1_000
_FEED: Final = "feed"
"""The row of the table `meta` that holds the feed mark."""


def write_check(connection: sqlite3.Connection, size: int) -> None:
    """A write that reaches the disk, of at least that many bytes."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('check', randomblob(?))", (size,))


def read_feed_mark(connection: sqlite3.Connection) -> FeedMark | None:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (_FEED,)).fetchone()
    return None if row is None else FeedMark(*orjson.loads(row[0]))


def announce_again(context: Context, tables: Iterable[Table], mark: FeedMark) -> None:
    for table in tables:
        if table.entity.history:
            context.connection.execute(f"UPDATE {table.name}_heads SET announced = 0 WHERE at >= ?", (mark.begins,))
    context.cache.clear()
    _write_feed_mark(context, mark)


def _write_feed_mark(context: Context, mark: FeedMark) -> None:
    context.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_FEED, orjson.dumps(tuple(mark))))


def write_marks(context: Context, feed: FeedMark | None, marks: Mapping[HeadKey, int]) -> None:
    durable = read_feed_mark(context.connection) if feed is not None else None
    if feed is not None and feed.replaces(durable):
        _write_feed_mark(context, feed)
    elif feed is not None and durable is not None and (feed.stream, feed.epoch) != (durable.stream, durable.epoch):
        return  # the keys are due again since
    for (entity, tenant, id), version in marks.items():
        context.connection.execute(
            f"UPDATE {entity}_heads SET announced = ? WHERE tenant = ? AND id = ? AND announced < ?",
            (version, tenant, id, version),
        )
        cached = context.cache.get((entity, tenant, id))
        if cached is not None:
            cached.announced = max(cached.announced, version)


def purge_requests(context: Context, before: int) -> int:
    """Answers how many were forgotten; 0 as soon as there are no more."""
    cursor = context.connection.execute(
        "DELETE FROM requests WHERE scope IN (SELECT scope FROM requests WHERE at IS NOT NULL AND at < ? LIMIT ?)",
        (before, _PURGED_AT_ONCE),
    )
    return cursor.rowcount


def freeze_records(context: Context, table: Table, tenant: str, id: str, through: int, limit: int) -> int:
    row = _head_row(context, table.name, tenant, id)
    if row is None:
        return 0
    key, _, _, announced, _ = row
    rows = context.connection.execute(
        f"SELECT requests, {table.record_columns} FROM {table.name}_records WHERE key = ? AND version <= ? "
        "ORDER BY version LIMIT ?",
        (key, min(through, announced), limit),
    ).fetchall()
    for start in range(0, len(rows), CHUNK_RECORDS):
        part = rows[start : start + CHUNK_RECORDS]
        scopes = still_known(context.connection, table.name, key, split(requests for requests, *_ in part))
        _insert_chunk(context, table, key, [record_from_row(table, record) for _, *record in part], scopes)
    if rows:
        last = record_from_row(table, rows[-1][1:]).version
        context.connection.execute(f"DELETE FROM {table.name}_records WHERE key = ? AND version <= ?", (key, last))
    return len(rows)


def _insert_chunk(
    context: Context, table: Table, key: int, records: list[StoredRecord], scopes: Sequence[bytes] = ()
) -> None:
    positions = [record.position for record in records if record.position is not None]
    context.connection.execute(
        f"INSERT INTO {table.name}_cold (key, first, last, first_at, first_position, last_position, chunk, requests) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key,
            records[0].version,
            records[-1].version,
            records[0].at,
            min(positions, default=None),
            max(positions, default=None),
            pack(records),
            b"".join(scopes) or None,
        ),
    )


def erase_key(
    context: Context,
    table: Table,
    tenant: str,
    id: str,
    actor: str,
    cause: str | None,
    keep: int,
    expected: int | None,
) -> Stamp | None:
    name = table.name
    row = _head_row(context, name, tenant, id)
    if row is None:
        return None
    key, version, at, announced, gone = row
    has_history = table.entity.history
    if not gone and expected not in (None, version):
        raise RevisionConflict(f"this {name} is at version {version} by now", expected=expected, actual=version)
    if not gone and announced < version and has_history:
        raise Unavailable(
            f"version {version} of this {name} is not announced yet", retry_after_ms=50, announced=announced
        )
    if not gone:
        _spend_requests(context, name, key)
    _remove_records(context, table, key, keep)
    if gone:
        return _same_tombstone(context, name, key, Stamp(tenant, name, id, version, at, actor, cause))
    stamp = Stamp(tenant, name, id, version + 1, max(context.clock(), at + 1), actor, cause)
    announced = version if has_history else stamp.version
    cleared = "".join(f", {column} = NULL" for column in table.index_columns)
    context.connection.execute(
        f"UPDATE {name}_heads SET version = ?, at = ?, announced = ?, body = NULL, actor = ?, cause = ?"
        f"{cleared} WHERE key = ?",
        (stamp.version, stamp.at, announced, actor, cause, key),
    )
    context.cache.drop((name, tenant, id))
    context.committed.append(Committed(table.entity, stamp, None, None, announced, erased=True))
    return stamp


def _spend_requests(context: Context, name: str, key: int) -> None:
    held: list[Any] = []
    for kind in ("records", "cold"):
        where = f"{name}_{kind} WHERE key = ? AND requests IS NOT NULL"
        held += context.connection.execute(f"SELECT requests FROM {where}", (key,)).fetchall()
    spend(context.connection, name, key, split(requests for (requests,) in held))
    spend_stamps(context.connection, name, key)


def _same_tombstone(context: Context, name: str, key: int, stamp: Stamp) -> Stamp | None:
    """The stamp, if it is the tombstone's own: the erasure is repeated, not a second one."""
    row = context.connection.execute(f"SELECT actor, cause FROM {name}_heads WHERE key = ?", (key,)).fetchone()
    return stamp if stamp.cause is not None and row == (stamp.actor, stamp.cause) else None


def _head_row(context: Context, name: str, tenant: str, id: str) -> tuple[int, int, int, int, bool] | None:
    row = context.connection.execute(
        f"SELECT key, version, at, announced, body IS NULL FROM {name}_heads WHERE tenant = ? AND id = ?",
        (tenant, id),
    ).fetchone()
    if row is None:
        return None
    announced = max(row[3], context.marks.get((name, tenant, id), 0))
    return row[0], row[1], row[2], announced, bool(row[4])


def _remove_records(context: Context, table: Table, key: int, keep: int) -> None:
    """Everything above a position, and everything without one; a cold chunk across the border is packed again."""
    name = table.name
    context.connection.execute(
        f"DELETE FROM {name}_records WHERE key = ? AND (position IS NULL OR position > ?)", (key, keep)
    )
    kept: list[StoredRecord] = []
    chunks: list[Any] = context.connection.execute(
        f"SELECT chunk FROM {name}_cold WHERE key = ? AND first_position <= ? ORDER BY last", (key, keep)
    ).fetchall()
    for (chunk,) in chunks:
        kept += [record for record in unpack(chunk) if record.position is not None and record.position <= keep]
    context.connection.execute(f"DELETE FROM {name}_cold WHERE key = ?", (key,))
    for start in range(0, len(kept), CHUNK_RECORDS):
        _insert_chunk(context, table, key, kept[start : start + CHUNK_RECORDS])
