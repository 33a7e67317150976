"""Edits a worker's stored data behind its back, as somebody with access to the store can."""

import sqlite3
import zlib
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson
from pymongo import MongoClient

Edit = Callable[[dict[str, Any]], Any]


class Tampering(Protocol):
    """The version of the record, or None for the head."""

    def edit(self, entity: str, id: str, version: int | None, edit: Edit) -> None:
        """Change the body."""

    def spoil(self, entity: str, id: str, version: int | None) -> None:
        """Make the body unreadable."""

    def set(self, entity: str, id: str, which: int | None, **fields: Any) -> None:
        """Change the fields next to the body."""

    def remove(self, entity: str, id: str, version: int | None) -> None: ...

    def swap(self, entity: str, id: str, one: int, other: int) -> None:
        """Exchange the bodies of two versions."""


def _edited(body: bytes | str, edit: Edit) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    packed = not raw.startswith(b"{")
    fields: dict[str, Any] = orjson.loads(zlib.decompress(raw) if packed else raw)
    edit(fields)
    text = orjson.dumps(fields)
    return zlib.compress(text) if packed else text


@dataclass(frozen=True)
class InSqlite:
    path: Path
    tenant: str

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def _where(self, entity: str, id: str, version: int | None) -> tuple[str, str, list[Any]]:
        if version is None:
            return f"{entity}_heads", "tenant = ? AND id = ?", [self.tenant, id]
        key = f"(SELECT key FROM {entity}_heads WHERE tenant = ? AND id = ?)"
        return f"{entity}_records", f"key = {key} AND version = ?", [self.tenant, id, version]

    def _body(self, entity: str, id: str, version: int | None) -> bytes:
        table, where, values = self._where(entity, id, version)
        ((body,),) = self._run(f"SELECT body FROM {table} WHERE {where}", *values)
        return bytes(body)

    def set(self, entity: str, id: str, which: int | None, **fields: Any) -> None:
        table, where, values = self._where(entity, id, which)
        settings = ", ".join(f"{name} = ?" for name in fields)
        self._run(f"UPDATE {table} SET {settings} WHERE {where}", *fields.values(), *values)

    def edit(self, entity: str, id: str, version: int | None, edit: Edit) -> None:
        self.set(entity, id, version, body=_edited(self._body(entity, id, version), edit))

    def spoil(self, entity: str, id: str, version: int | None) -> None:
        self.set(entity, id, version, body=b"{nonsense")

    def remove(self, entity: str, id: str, version: int | None) -> None:
        table, where, values = self._where(entity, id, version)
        self._run(f"DELETE FROM {table} WHERE {where}", *values)

    def swap(self, entity: str, id: str, one: int, other: int) -> None:
        first, second = self._body(entity, id, one), self._body(entity, id, other)
        self.set(entity, id, one, body=second)
        self.set(entity, id, other, body=first)


@dataclass(frozen=True)
class InMongo:
    client: MongoClient[dict[str, Any]]
    database: str
    tenant: str

    def _collection(self, entity: str, version: int | None) -> Any:
        return self.client[self.database][f"{entity}_heads" if version is None else f"{entity}_records"]

    def _id(self, id: str, version: int | None) -> dict[str, Any]:
        place = {"t": self.tenant, "i": id}
        return {"_id": place if version is None else {**place, "v": version}}

    def _body(self, entity: str, id: str, version: int | None) -> Any:
        return self._collection(entity, version).find_one(self._id(id, version))["body"]

    def set(self, entity: str, id: str, which: int | None, **fields: Any) -> None:
        result = self._collection(entity, which).update_one(self._id(id, which), {"$set": fields})
        assert result.matched_count == 1

    def edit(self, entity: str, id: str, version: int | None, edit: Edit) -> None:
        found = _edited(self._body(entity, id, version), edit)
        self.set(entity, id, version, body=found.decode() if found.startswith(b"{") else found)

    def spoil(self, entity: str, id: str, version: int | None) -> None:
        self.set(entity, id, version, body="{nonsense")

    def remove(self, entity: str, id: str, version: int | None) -> None:
        assert self._collection(entity, version).delete_one(self._id(id, version)).deleted_count == 1

    def swap(self, entity: str, id: str, one: int, other: int) -> None:
        first, second = self._body(entity, id, one), self._body(entity, id, other)
        self.set(entity, id, one, body=second)
        self.set(entity, id, other, body=first)


@contextmanager
def tampering_with(store: dict[str, Any], tenant: str) -> Generator[Tampering]:
    if store["store"] == "sqlite":
        yield InSqlite(Path(store["data"]) / "memory.db", tenant)
        return
    with MongoClient[dict[str, Any]](store["mongo_url"]) as client:
        yield InMongo(client, store["mongo_database"], tenant)
