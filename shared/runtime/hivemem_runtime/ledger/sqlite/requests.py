"""What a repeated write is known by: the scopes of its identities, sixteen bytes each.

Each stands in `requests` with the record that answers it, and that record names it, so that an erasure finds it. Where
no record is kept, it stands there with the stamp that the record had, and an index finds it by its key.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Write
from hivemem_runtime.ledger.sqlite.rows import marks

NOTHING: Final = 0
"""The version that a request names which appended nothing."""
SPENT: Final = -1
"""The version that a request names whose record is erased."""
_SCOPE_BYTES: Final = 16
_AT_ONCE: Final = 500


class Known(NamedTuple):
    """What answers: the record of a version, or where none is kept, the stamp that it had."""

    entity: str
    key: int
    version: int
    stamp: str | None

    def stamp_of(self, tenant: str, id: str) -> Stamp | None:
        return None if self.stamp is None else Stamp(tenant, self.entity, id, self.version, *orjson.loads(self.stamp))


def kept_stamp(stamp: Stamp) -> str:
    """What of a stamp does not stand in the columns of its request anyway."""
    return orjson.dumps((stamp.at, stamp.actor, stamp.cause, stamp.traceparent)).decode()


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
        statement = f"SELECT scope, entity, key, version, stamp FROM requests WHERE scope IN ({marks(len(part))})"
        known.update((row[0], Known(*row[1:])) for row in connection.execute(statement, part))
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


def spend_stamps(connection: sqlite3.Connection, entity: str, key: int) -> None:
    """Likewise those that no record names."""
    where = "WHERE entity = ? AND key = ? AND stamp IS NOT NULL"
    connection.execute(f"DELETE FROM requests {where} AND at IS NULL", (entity, key))
    connection.execute(f"UPDATE requests SET version = {SPENT}, stamp = NULL {where}", (entity, key))


def _parts(scopes: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(scopes), _AT_ONCE):
        yield scopes[start : start + _AT_ONCE]
