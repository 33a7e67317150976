"""What a repeated write is known by: the scopes of its identities, sixteen bytes each.

Each stands in `requests` with the record that answers it, and that record names it, so that an erasure finds it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

from hivemem_runtime.ledger.port import Write
from hivemem_runtime.ledger.sqlite.rows import marks

NOTHING: Final = 0
"""The version that a request names which appended nothing."""
SPENT: Final = -1
"""The version that a request names whose record is erased."""
_SCOPE_BYTES: Final = 16
_AT_ONCE: Final = 500

Known = tuple[str, int, int]
"""Entity name, key and version of the record that answers."""


def scopes_of(write: Write) -> list[tuple[bytes, bool]]:
    """Short names for the scopes of a write's identities, and whether each is kept as long as its key.

    With the lengths of the parts in front, no text in one part can pass for another part."""
    scopes: list[tuple[bytes, bool]] = []
    if write.request_id is not None:
        scopes.append((_name(f"r{len(write.tenant)}:{write.tenant}{write.request_id}"), False))
    if write.once is not None:
        place = f"{len(write.tenant)},{len(write.id)}:{write.tenant}{write.id}"
        scopes.append((_name(f"o{write.entity.name}:{place}{write.once}"), True))
    return scopes


def _name(scope: str) -> bytes:
    """Sixteen bytes that nobody can make two scopes share."""
    return blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=_SCOPE_BYTES).digest()


def read_known(connection: sqlite3.Connection, scopes: Sequence[bytes]) -> dict[bytes, Known]:
    known: dict[bytes, Known] = {}
    for part in _parts(scopes):
        statement = f"SELECT scope, entity, key, version FROM requests WHERE scope IN ({marks(len(part))})"
        known.update((row[0], row[1:]) for row in connection.execute(statement, part))
    return known


def split(held: Iterable[bytes | None]) -> list[bytes]:
    """The scopes that stand in columns of records or of cold chunks."""
    return [
        scopes[start : start + _SCOPE_BYTES]
        for scopes in held
        if scopes is not None
        for start in range(0, len(scopes), _SCOPE_BYTES)
    ]


def still_known(connection: sqlite3.Connection, entity: str, key: int, scopes: Sequence[bytes]) -> list[bytes]:
    """Those that a record of this key answers: an old one may be forgotten, or stand for another write since."""
    known = read_known(connection, scopes)
    return [scope for scope in scopes if scope in known and known[scope][:2] == (entity, key)]


def spend(connection: sqlite3.Connection, entity: str, key: int, scopes: Sequence[bytes]) -> None:
    """The records of the key are erased: requests stay known as spent, for as long as they would have been known,
    and what was kept as long as the key is forgotten with it."""
    for part in _parts(scopes):
        where = f"WHERE scope IN ({marks(len(part))}) AND entity = ? AND key = ?"
        values: list[Any] = [*part, entity, key]
        connection.execute(f"DELETE FROM requests {where} AND at IS NULL", values)
        connection.execute(f"UPDATE requests SET version = {SPENT} {where}", values)


def _parts(scopes: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(scopes), _AT_ONCE):
        yield scopes[start : start + _AT_ONCE]
