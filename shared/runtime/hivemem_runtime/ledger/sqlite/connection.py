"""Opening the file, and saying in the fleet's words what SQLite says in its own."""

import sqlite3
from pathlib import Path
from typing import Any, Final

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.refusals import BrokenStore, UnfitServer

BUSY_SECONDS: Final = 5.0
RETRY_AFTER_MS: Final = 500
_CHECKPOINT_PAGES: Final = 8_000
"""Pages of 4 KiB. Pages that every commit touches are then copied into the file once for many commits."""
_MAPPED_BYTES: Final = 256 * 1024 * 1024
_OLDEST: Final = (3, 33)
_BROKEN: Final = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with every statement its own transaction unless one is begun."""
    if sqlite3.sqlite_version_info < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise UnfitServer(f"the ledger needs SQLite {oldest} or later, not {sqlite3.sqlite_version}")
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=1_024
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        connection.execute("PRAGMA cache_size = -32768")
        if read_only:
            connection.execute("PRAGMA query_only = 1")
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    return connection


def refusal(path: Path, error: sqlite3.Error) -> Unavailable | BrokenStore:
    """Why the file does not open: `Unavailable` where that may pass."""
    # The low byte is the result; the others, where there are any, say more about it.
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
        return BrokenStore(f"{path}: {error}: restore a backup")
    return unavailable(error)


def unavailable(error: sqlite3.Error) -> Unavailable:
    context: dict[str, Any] = {"retry_after_ms": RETRY_AFTER_MS}
    return Unavailable(f"the SQLite store cannot do this now: {error}", **context)
