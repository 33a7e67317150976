"""What the writer does besides writes: marks, cold storage, erasure, forgetting request ids."""

from collections.abc import Mapping
from typing import Any, Final

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.entity import AnyEntity, Stamp
from hivemem_runtime.ledger.port import Committed
from hivemem_runtime.ledger.sqlite.batch import HeadKey
from hivemem_runtime.ledger.sqlite.reads import record_columns, record_from_row
from hivemem_runtime.ledger.sqlite.schema import column
from hivemem_runtime.ledger.sqlite.writer import Context
from hivemem_runtime.ledger.stored import CHUNK_RECORDS, StoredRecord, pack, unpack

_PURGED_AT_ONCE: Final = 5_000


def write_marks(context: Context, marks: Mapping[HeadKey, int]) -> None:
    for (entity, tenant, id), version in marks.items():
        context.connection.execute(
            f"UPDATE {entity}_heads SET announced = ? WHERE tenant = ? AND id = ? AND announced < ?",
            (version, tenant, id, version),
        )
        cached = context.cache.get((entity, tenant, id))
        if cached is not None:
            cached.announced = max(cached.announced, version)


def purge_requests(context: Context, before: int) -> int:
    cursor = context.connection.execute(
        "DELETE FROM requests WHERE scope IN (SELECT scope FROM requests WHERE at IS NOT NULL AND at < ? LIMIT ?)",
        (before, _PURGED_AT_ONCE),
    )
    return cursor.rowcount


def freeze_records(context: Context, entity: AnyEntity, tenant: str, id: str, through: int, limit: int) -> int:
    row = _head_row(context, entity, tenant, id)
    if row is None:
        return 0
    key, _, _, announced, _ = row
    rows = context.connection.execute(
        f"SELECT {record_columns(entity)} FROM {entity.name}_records WHERE key = ? AND version <= ? "
        "ORDER BY version LIMIT ?",
        (key, min(through, announced), limit),
    ).fetchall()
    records = [record_from_row(entity, found) for found in rows]
    for start in range(0, len(records), CHUNK_RECORDS):
        _insert_chunk(context, entity, key, records[start : start + CHUNK_RECORDS])
    if records:
        context.connection.execute(
            f"DELETE FROM {entity.name}_records WHERE key = ? AND version <= ?", (key, records[-1].version)
        )
    return len(records)


def _insert_chunk(context: Context, entity: AnyEntity, key: int, records: list[StoredRecord]) -> None:
    positions = [record.position for record in records if record.position is not None]
    context.connection.execute(
        f"INSERT INTO {entity.name}_cold (key, first, last, first_at, first_position, last_position, chunk) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            key,
            records[0].version,
            records[-1].version,
            records[0].at,
            min(positions, default=None),
            max(positions, default=None),
            pack(records),
        ),
    )


def erase_key(
    context: Context, entity: AnyEntity, tenant: str, id: str, actor: str, cause: str | None, keep: int
) -> Stamp | None:
    row = _head_row(context, entity, tenant, id)
    if row is None:
        return None
    key, version, at, announced, gone = row
    if not gone and announced < version:
        raise Unavailable(
            f"version {version} of this {entity.name} is not announced yet", retry_after_ms=50, announced=announced
        )
    _remove_records(context, entity, key, keep)
    if gone:
        return _same_tombstone(context, entity, key, Stamp(tenant, entity.name, id, version, at, actor, cause))
    context.connection.execute("DELETE FROM requests WHERE entity = ? AND key = ?", (entity.name, key))
    stamp = Stamp(tenant, entity.name, id, version + 1, max(context.clock(), at + 1), actor, cause)
    cleared = "".join(f", {column(field)} = NULL" for field in entity.index_fields)
    context.connection.execute(
        f"UPDATE {entity.name}_heads SET version = ?, at = ?, announced = ?, body = NULL, actor = ?, cause = ?"
        f"{cleared} WHERE key = ?",
        (stamp.version, stamp.at, version, actor, cause, key),
    )
    context.cache.drop((entity.name, tenant, id))
    context.committed.append(Committed(entity, stamp, None, None, version, erased=True))
    return stamp


def _same_tombstone(context: Context, entity: AnyEntity, key: int, stamp: Stamp) -> Stamp | None:
    """The stamp, if it is the tombstone's own: the erasure is repeated, not a second one."""
    row = context.connection.execute(f"SELECT actor, cause FROM {entity.name}_heads WHERE key = ?", (key,)).fetchone()
    return stamp if stamp.cause is not None and row == (stamp.actor, stamp.cause) else None


def _head_row(context: Context, entity: AnyEntity, tenant: str, id: str) -> tuple[int, int, int, int, bool] | None:
    row = context.connection.execute(
        f"SELECT key, version, at, announced, body IS NULL FROM {entity.name}_heads WHERE tenant = ? AND id = ?",
        (tenant, id),
    ).fetchone()
    if row is None:
        return None
    announced = max(row[3], context.marks.get((entity.name, tenant, id), 0))
    return row[0], row[1], row[2], announced, bool(row[4])


def _remove_records(context: Context, entity: AnyEntity, key: int, keep: int) -> None:
    """Everything above a position, and everything without one; a cold chunk across the border is packed again."""
    context.connection.execute(
        f"DELETE FROM {entity.name}_records WHERE key = ? AND (position IS NULL OR position > ?)", (key, keep)
    )
    kept: list[StoredRecord] = []
    chunks: list[Any] = context.connection.execute(
        f"SELECT chunk FROM {entity.name}_cold WHERE key = ? AND first_position <= ? ORDER BY last", (key, keep)
    ).fetchall()
    for (chunk,) in chunks:
        kept += [record for record in unpack(chunk) if record.position is not None and record.position <= keep]
    context.connection.execute(f"DELETE FROM {entity.name}_cold WHERE key = ?", (key,))
    for start in range(0, len(kept), CHUNK_RECORDS):
        _insert_chunk(context, entity, key, kept[start : start + CHUNK_RECORDS])
