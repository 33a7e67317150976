"""Identities of writes: each has a scope of sixteen bytes, by which a repeated write is recognised.

The table `requests` maps a scope to the record that answers it. The record names its scopes too, so that an erasure
finds them. For entities without history the row has the record's stamp instead, and an index finds it by its key.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import RequestId, Write
from hivemem_runtime.ledger.sqlite.rows import marks

NOTHING: Final = 0
"""The version that a request names which appended nothing."""
SPENT: Final = -1
"""The version that a request names whose record is erased."""
_SCOPE_BYTES: Final = 16
_AT_ONCE: Final = 500


class SqliteIdentity(NamedTuple):
    scope: bytes
    as_long_as_key: bool
    digest: bytes | None


class SqliteIdentities(NamedTuple):
    own: list[SqliteIdentity]
    part_of: SqliteIdentity | None
    elsewhere: bytes | None
    """The scope of another write, which answers if it wrote to the same key."""

    @property
    def scopes(self) -> list[bytes]:
        found = [identity.scope for identity in self.own]
        if self.part_of is not None:
            found.append(self.part_of.scope)
        if self.elsewhere is not None:
            found.append(self.elsewhere)
        return found


class Known(NamedTuple):
    """What answers: the record of a version, or where none is kept, the stamp that it had."""

    entity: str
    key: int
    version: int
    stamp: str | None
    digest: bytes | None

    def stamp_of(self, tenant: str, id: str) -> Stamp | None:
        return None if self.stamp is None else Stamp(tenant, self.entity, id, self.version, *orjson.loads(self.stamp))


def kept_stamp(stamp: Stamp) -> str:
    """Return the parts of a stamp that the other columns of its request do not have."""
    return orjson.dumps((stamp.at, stamp.actor, stamp.cause, stamp.traceparent)).decode()


def identities_of(write: Write) -> SqliteIdentities:
    """What a write is known by, with short names for the scopes.

    With the lengths of the parts in front, no text in one part can pass for another part."""
    tenant = write.tenant
    own = [] if write.request_id is None else [_identity(tenant, write.request_id)]
    if write.once is not None:
        place = f"{len(tenant)},{len(write.id)}:{tenant}{write.id}"
        own.append(SqliteIdentity(_name(f"o{write.entity.name}:{place}{write.once}"), True, None))
    return SqliteIdentities(
        own,
        None if write.part_of is None else _identity(tenant, write.part_of),
        None if write.answered_by is None else _request_scope(tenant, write.answered_by),
    )


def _identity(tenant: str, request: RequestId) -> SqliteIdentity:
    name, digest, as_long_as_key = request
    return SqliteIdentity(_request_scope(tenant, name), as_long_as_key, digest)


def _request_scope(tenant: str, name: str) -> bytes:
    return _name(f"r{len(tenant)}:{tenant}{name}")


def _name(scope: str) -> bytes:
    """Sixteen bytes that nobody can make two scopes share."""
    return blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=_SCOPE_BYTES).digest()


def read_known(connection: sqlite3.Connection, scopes: Sequence[bytes]) -> dict[bytes, Known]:
    known: dict[bytes, Known] = {}
    for part in _parts(scopes):
        statement = (
            f"SELECT scope, entity, key, version, stamp, digest FROM requests WHERE scope IN ({marks(len(part))})"
        )
        known.update((row[0], Known(*row[1:])) for row in connection.execute(statement, part))
    return known


def split(held: Iterable[bytes | None]) -> list[bytes]:
    """Return the scopes that are packed in columns of records or cold chunks."""
    return [
        scopes[start : start + _SCOPE_BYTES]
        for scopes in held
        if scopes is not None
        for start in range(0, len(scopes), _SCOPE_BYTES)
    ]


def still_known(connection: sqlite3.Connection, entity: str, key: int, scopes: Sequence[bytes]) -> list[bytes]:
    """Return the scopes that a record of this key still answers. An old one may be forgotten or reused since."""
    known = read_known(connection, scopes)
    return [scope for scope in scopes if scope in known and known[scope][:2] == (entity, key)]


def spend(connection: sqlite3.Connection, entity: str, key: int, scopes: Sequence[bytes]) -> None:
    """The records of the key are erased: requests stay known as spent, for as long as they would have been known,
    and what was kept as long as the key is forgotten with it."""
    for part in _parts(scopes):
        where = f"WHERE scope IN ({marks(len(part))}) AND entity = ? AND key = ?"
        values: list[Any] = [*part, entity, key]
        connection.execute(f"DELETE FROM requests {where} AND at IS NULL", values)
        connection.execute(f"UPDATE requests SET version = {SPENT}, digest = NULL {where}", values)


def spend_stamps(connection: sqlite3.Connection, entity: str, key: int) -> None:
    """Spend the requests of a key that no record names."""
    where = "WHERE entity = ? AND key = ? AND stamp IS NOT NULL"
    connection.execute(f"DELETE FROM requests {where} AND at IS NULL", (entity, key))
    connection.execute(f"UPDATE requests SET version = {SPENT}, stamp = NULL, digest = NULL {where}", (entity, key))


def _parts(scopes: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(scopes), _AT_ONCE):
        yield scopes[start : start + _AT_ONCE]
