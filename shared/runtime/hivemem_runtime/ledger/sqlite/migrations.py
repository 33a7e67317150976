"""Migrations: the data on disk has a version, and older data is migrated when it is opened."""

import sqlite3
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Final

from hivemem_runtime.ledger.refusals import DataTooNew

DATA_VERSION: Final = 3
"""Incremented with each change to the data on disk that an older release could not read."""


def migrate(connection: sqlite3.Connection, found: int) -> None:
    if found > DATA_VERSION:
        raise DataTooNew(f"the data has version {found}, this release of Hivemem knows {DATA_VERSION}: use a newer one")
    for version in range(found, DATA_VERSION):
        MIGRATIONS[version](connection)


def _name_requests_in_records(connection: sqlite3.Connection) -> None:
    """Records name the requests that they answer from this version on, which replaces the index on requests. Bodies may
    be packed, which older releases cannot read."""
    for entity in _entities(connection):
        connection.execute(f"ALTER TABLE {entity}_records ADD COLUMN requests BLOB")
        connection.execute(f"ALTER TABLE {entity}_cold ADD COLUMN requests BLOB")
    rows = connection.execute(
        "SELECT entity, key, version, scope FROM requests WHERE version > 0 ORDER BY entity, key, version"
    )
    for (entity, key, version), group in groupby(rows, itemgetter(0, 1, 2)):
        _name_requests(connection, entity, key, version, b"".join(scope for *_, scope in group))
    connection.execute("DROP INDEX IF EXISTS requests_key")


def _name_requests(connection: sqlite3.Connection, entity: str, key: int, version: int, scopes: bytes) -> None:
    changed = connection.execute(
        f"UPDATE {entity}_records SET requests = ? WHERE key = ? AND version = ?", (scopes, key, version)
    )
    if changed.rowcount:
        return
    chunk = connection.execute(
        f"SELECT rowid, requests FROM {entity}_cold WHERE key = ? AND last >= ? AND first <= ? ORDER BY last LIMIT 1",
        (key, version, version),
    ).fetchone()
    if chunk is not None:
        connection.execute(
            f"UPDATE {entity}_cold SET requests = ? WHERE rowid = ?", ((chunk[1] or b"") + scopes, chunk[0])
        )


def _entities(connection: sqlite3.Connection) -> list[str]:
    """Those that have tables, whether they are still declared or not."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%\\_heads' ESCAPE '\\'"
    )
    return [row[0].removesuffix("_heads") for row in rows.fetchall()]


def _keep_digests(connection: sqlite3.Connection) -> None:
    """Requests have a digest of their body from this version on. Existing ones have none, and match any body."""
    connection.execute("ALTER TABLE requests ADD COLUMN digest BLOB")


MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {1: _name_requests_in_records, 2: _keep_digests}
"""`MIGRATIONS[n]` brings data of version n to n + 1."""
