"""Tables and indexes, made from what the entities declare."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from hivemem_runtime.ledger.codec import decode_head, decode_record
from hivemem_runtime.ledger.entity import AnyEntity, Index
from hivemem_runtime.ledger.refusals import DataTooNew
from hivemem_runtime.ledger.sqlite.migrations import DATA_VERSION, migrate
from hivemem_runtime.ledger.sqlite.tables import (
    PRESENT,
    Table,
    column,
    covering_column,
    index_name,
    needs_present,
    tag_column,
)

_ROWS_AT_ONCE: Final = 1_000


def prepare(connection: sqlite3.Connection, tables: Iterable[Table]) -> None:
    """Create what is missing and migrate what is old, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
        row = connection.execute("SELECT value FROM meta WHERE name = 'data_version'").fetchone()
        migrate(connection, DATA_VERSION if row is None else int(row[0]))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('data_version', ?)", (DATA_VERSION,))
        _create_requests(connection)
        for table in tables:
            _create_tables(connection, table.name)
            _create_indexes(connection, table)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _create_requests(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS requests (scope BLOB PRIMARY KEY, entity TEXT NOT NULL, key INTEGER NOT NULL, "
        "version INTEGER NOT NULL, at INTEGER, digest BLOB) WITHOUT ROWID"
    )
    _add_columns(connection, "requests", ("stamp",))
    connection.execute("CREATE INDEX IF NOT EXISTS requests_at ON requests (at) WHERE at IS NOT NULL")
    connection.execute("CREATE INDEX IF NOT EXISTS requests_stamped ON requests (entity, key) WHERE stamp IS NOT NULL")


def _create_tables(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {name}_heads (key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, "
        "version INTEGER NOT NULL, at INTEGER NOT NULL, announced INTEGER NOT NULL, schema INTEGER NOT NULL, "
        "body BLOB, actor TEXT, cause TEXT, UNIQUE (tenant, id))"
    )
    # By row: the new records of all keys stand on the same few pages, which is what a commit has to write.
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {name}_records (key INTEGER NOT NULL, version INTEGER NOT NULL, "
        "at INTEGER NOT NULL, actor TEXT NOT NULL, cause TEXT, traceparent TEXT, schema INTEGER NOT NULL, "
        "body BLOB NOT NULL, snapshot BLOB, position INTEGER, requests BLOB, UNIQUE (key, version))"
    )
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {name}_cold (key INTEGER NOT NULL, first INTEGER NOT NULL, "
        "last INTEGER NOT NULL, first_at INTEGER NOT NULL, first_position INTEGER, last_position INTEGER, "
        "chunk BLOB NOT NULL, requests BLOB, UNIQUE (key, last))"
    )


def _create_indexes(connection: sqlite3.Connection, table: Table) -> None:
    """Indexes follow the declaration: changed ones are made again, new fields are filled in from what is there."""
    entity, name = table.entity, table.name
    changed = _schema_changed(connection, entity)
    if _add_columns(connection, f"{name}_heads", table.index_columns) or changed:
        _fill_heads(connection, table)
    if _add_columns(connection, f"{name}_records", table.tag_columns):
        _fill_tags(connection, table)
    wanted: dict[str, str] = {}
    if entity.history:
        wanted |= {
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


def _add_columns(connection: sqlite3.Connection, name: str, columns: Sequence[str]) -> bool:
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
    added = [each for each in columns if each not in there]
    for each in added:
        connection.execute(f"ALTER TABLE {name} ADD COLUMN {each}")
    return bool(added)


def _schema_changed(connection: sqlite3.Connection, entity: AnyEntity) -> bool:
    """An upcast may give index fields other values, so heads of an older schema are indexed again."""
    name = f"schema:{entity.name}"
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    if row is not None and row[0] > entity.schema:
        raise DataTooNew(f"{entity.name}: the data has schema {row[0]}, this release knows {entity.schema}")
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, entity.schema))
    return row is not None and row[0] != entity.schema


def _fill_heads(connection: sqlite3.Connection, table: Table) -> None:
    if not table.index_columns:
        return
    settings = ", ".join(f"{name} = ?" for name in table.index_columns)
    for key, schema, body in _walk(connection, f"{table.name}_heads", "key, schema, body", "body IS NOT NULL"):
        values = table.indexed(decode_head(table.entity, schema, body))
        connection.execute(f"UPDATE {table.name}_heads SET {settings} WHERE key = ?", (*values, key))


def _fill_tags(connection: sqlite3.Connection, table: Table) -> None:
    entity = table.entity
    if entity.tags is None:
        return
    settings = ", ".join(f"{name} = ?" for name in table.tag_columns)
    for row, schema, body in _walk(connection, f"{table.name}_records", "rowid, schema, body", "position IS NOT NULL"):
        tags = entity.tags(decode_record(entity, schema, body))
        values = [tags.get(tag) for tag in entity.tag_fields]
        connection.execute(f"UPDATE {table.name}_records SET {settings} WHERE rowid = ?", (*values, row))


def _walk(connection: sqlite3.Connection, name: str, columns: str, condition: str) -> Iterator[tuple[Any, ...]]:
    """All rows of a table, the row's number first, a part at a time: they are changed on the way."""
    last = 0
    while True:
        rows: list[tuple[Any, ...]] = connection.execute(
            f"SELECT {columns} FROM {name} WHERE rowid > ? AND {condition} ORDER BY rowid LIMIT ?",
            (last, _ROWS_AT_ONCE),
        ).fetchall()
        if not rows:
            return
        yield from rows
        last = rows[-1][0]


def _index_statement(entity: AnyEntity, index: Index) -> str:
    """Return the statement that makes an index. The index includes every field that a query names, also a constant one,
    or else the query would have to read the heads."""
    order = () if index.order is None else (column(index.order),)
    only = () if index.only is None else (column(index.only),)
    present = (PRESENT,) if needs_present(index) else ()
    equals = tuple(map(column, index.equals))
    columns = ["tenant", *equals, *order, "id", *only, *present, *map(covering_column, index.covering)]
    conditions = [f"{name} IS NOT NULL" for name in (*equals, *order)]
    conditions += [f"{name} = 1" for name in (*only, *present)]
    return (
        f"CREATE INDEX {index_name(entity, index)} ON {entity.name}_heads ({', '.join(columns)}) "
        f"WHERE {' AND '.join(conditions)}"
    )
