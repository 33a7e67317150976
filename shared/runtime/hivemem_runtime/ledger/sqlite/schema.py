"""Tables and indexes, made from what the entities declare, and the migrations of older data."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from hivemem_runtime.ledger.codec import decode_head, decode_record
from hivemem_runtime.ledger.entity import AnyEntity, Index
from hivemem_runtime.ledger.refusals import DataTooNew

DATA_VERSION: Final = 1
"""Raised by one with each change to what stands on disk; `MIGRATIONS[n]` brings data of version n to n + 1."""

MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {}


def prepare(connection: sqlite3.Connection, entities: Sequence[AnyEntity]) -> None:
    """Create what is missing and migrate what is old, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
        row = connection.execute("SELECT value FROM meta WHERE name = 'data_version'").fetchone()
        _migrate(connection, DATA_VERSION if row is None else int(row[0]))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('data_version', ?)", (DATA_VERSION,))
        _create_requests(connection)
        for entity in entities:
            _create_tables(connection, entity)
            _create_indexes(connection, entity)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, found: int) -> None:
    if found > DATA_VERSION:
        raise DataTooNew(f"the data has version {found}, this release of Hivemem knows {DATA_VERSION}: use a newer one")
    for version in range(found, DATA_VERSION):
        MIGRATIONS[version](connection)


def _create_requests(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS requests (scope BLOB PRIMARY KEY, entity TEXT NOT NULL, key INTEGER NOT NULL, "
        "version INTEGER NOT NULL, at INTEGER) WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX IF NOT EXISTS requests_key ON requests (entity, key)")
    connection.execute("CREATE INDEX IF NOT EXISTS requests_at ON requests (at) WHERE at IS NOT NULL")


def _create_tables(connection: sqlite3.Connection, entity: AnyEntity) -> None:
    name = entity.name
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {name}_heads (key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, "
        "version INTEGER NOT NULL, at INTEGER NOT NULL, announced INTEGER NOT NULL, schema INTEGER NOT NULL, "
        "body BLOB, actor TEXT, cause TEXT, UNIQUE (tenant, id))"
    )
    # By row: the new records of all keys stand on the same few pages, which is what a commit has to write.
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {name}_records (key INTEGER NOT NULL, version INTEGER NOT NULL, "
        "at INTEGER NOT NULL, actor TEXT NOT NULL, cause TEXT, traceparent TEXT, schema INTEGER NOT NULL, "
        "body BLOB NOT NULL, snapshot BLOB, position INTEGER, UNIQUE (key, version))"
    )
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {name}_cold (key INTEGER NOT NULL, first INTEGER NOT NULL, "
        "last INTEGER NOT NULL, first_at INTEGER NOT NULL, first_position INTEGER, last_position INTEGER, "
        "chunk BLOB NOT NULL, UNIQUE (key, last))"
    )


def _create_indexes(connection: sqlite3.Connection, entity: AnyEntity) -> None:
    """Indexes follow the declaration: changed ones are made again, new fields are filled in from what is there."""
    name = entity.name
    changed = _schema_changed(connection, entity)
    if _add_columns(connection, f"{name}_heads", [column(field) for field in entity.index_fields]) or changed:
        _fill_heads(connection, entity)
    if _add_columns(connection, f"{name}_records", [tag_column(tag) for tag in entity.tag_fields]):
        _fill_tags(connection, entity)
    wanted = {
        f"{name}_due": f"CREATE INDEX {name}_due ON {name}_heads (at) WHERE version > announced",
        f"{name}_position": f"CREATE INDEX {name}_position ON {name}_records (key, position) "
        "WHERE position IS NOT NULL",
    }
    for index in entity.indexes:
        wanted[index_name(entity, index)] = _index_statement(entity, index)
    for tag in entity.tag_fields:
        wanted[f"{name}_tag_{tag}"] = (
            f"CREATE INDEX {name}_tag_{tag} ON {name}_records (key, {tag_column(tag)}, position) "
            "WHERE position IS NOT NULL"
        )
    found = dict(
        connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN (?, ?)",
            (f"{name}_heads", f"{name}_records"),
        ).fetchall()
    )
    for index_found, statement in found.items():
        if wanted.get(index_found) != statement:
            connection.execute(f"DROP INDEX {index_found}")
    for index_wanted, statement in wanted.items():
        if found.get(index_wanted) != statement:
            connection.execute(statement)


def _add_columns(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> bool:
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    added = [name for name in columns if name not in there]
    for name in added:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {name}")
    return bool(added)


def _schema_changed(connection: sqlite3.Connection, entity: AnyEntity) -> bool:
    """An upcast may give index fields other values, so heads of an older schema are indexed again."""
    name = f"schema:{entity.name}"
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    if row is not None and row[0] > entity.schema:
        raise DataTooNew(f"{entity.name}: the data has schema {row[0]}, this release knows {entity.schema}")
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, entity.schema))
    return row is not None and row[0] != entity.schema


def _fill_heads(connection: sqlite3.Connection, entity: AnyEntity) -> None:
    fields = entity.index_fields
    if not fields:
        return
    update = f"UPDATE {entity.name}_heads SET {', '.join(f'{column(field)} = ?' for field in fields)} WHERE key = ?"
    heads = connection.execute(f"SELECT key, schema, body FROM {entity.name}_heads WHERE body IS NOT NULL")
    for key, schema, body in heads.fetchall():
        values = entity.indexed(decode_head(entity, schema, body))
        connection.execute(update, (*(values.get(field) for field in fields), key))


def _fill_tags(connection: sqlite3.Connection, entity: AnyEntity) -> None:
    if entity.tags is None:
        return
    update = (
        f"UPDATE {entity.name}_records SET {', '.join(f'{tag_column(tag)} = ?' for tag in entity.tag_fields)} "
        "WHERE key = ? AND version = ?"
    )
    records = connection.execute(
        f"SELECT key, version, schema, body FROM {entity.name}_records WHERE position IS NOT NULL"
    )
    for key, version, schema, body in records.fetchall():
        tags = entity.tags(decode_record(entity, schema, body))
        connection.execute(update, (*(tags.get(tag) for tag in entity.tag_fields), key, version))


def _index_statement(entity: AnyEntity, index: Index) -> str:
    columns = ", ".join(["tenant", *map(column, index.equals), column(index.order), "id", *map(column, index.covering)])
    conditions = [f"{column(field)} IS NOT NULL" for field in (*index.equals, index.order)]
    if index.only:
        conditions.append(f"{column(index.only)} = 1")
    return (
        f"CREATE INDEX {index_name(entity, index)} ON {entity.name}_heads ({columns}) WHERE {' AND '.join(conditions)}"
    )


def column(field: str) -> str:
    return f"x_{field}"


def tag_column(tag: str) -> str:
    return f"g_{tag}"


def index_name(entity: AnyEntity, index: Index) -> str:
    return f"{entity.name}_by_{index.name}"
