"""Heads as the writer keeps them between batches."""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.sqlite.tables import Table

CACHED_HEADS: Final = 10_000
CACHED_BYTES: Final = 32 * 1024 * 1024
"""Counted as JSON; as objects they are several times as large."""

HeadKey = tuple[str, str, str]
"""Entity name, tenant, id."""


@dataclass(slots=True)
class CachedHead:
    """A head as the writer knows it: `key` is its row id, None before it has a row; `indexed` are the values of its
    index columns; `size` is that of its body. Version 0 means that the key was never written."""

    entity: AnyEntity
    tenant: str
    id: str
    key: int | None = None
    version: int = 0
    at: int = 0
    announced: int = 0
    value: Any = None
    indexed: tuple[Any, ...] = ()
    size: int = 0

    def copy(self) -> "CachedHead":
        """For a batch, which may fail: what is cached stays as it is."""
        return CachedHead(
            self.entity,
            self.tenant,
            self.id,
            self.key,
            self.version,
            self.at,
            self.announced,
            self.value,
            self.indexed,
            self.size,
        )


class SqliteHeadCache:
    """Heads by key, bounded; the oldest entries leave first. Emptied when somebody else wrote the file."""

    def __init__(self) -> None:
        self._heads: OrderedDict[HeadKey, CachedHead] = OrderedDict()
        self._bytes = 0
        self._last_keys: dict[str, int] = {}
        self._data_version: int | None = None

    def refresh(self, connection: sqlite3.Connection) -> None:
        """To be called inside the write transaction: nobody else can write from here on."""
        found = cast("int", connection.execute("PRAGMA data_version").fetchone()[0])
        if found != self._data_version:
            self.clear()
            self._data_version = found

    def clear(self) -> None:
        self._heads.clear()
        self._bytes = 0
        self._last_keys.clear()

    def get(self, key: HeadKey) -> CachedHead | None:
        return self._heads.get(key)

    def put(self, heads: Iterable[tuple[HeadKey, CachedHead]]) -> None:
        for key, head in heads:
            self.drop(key)
            self._heads[key] = head
            self._bytes += head.size
        while len(self._heads) > CACHED_HEADS or self._bytes > CACHED_BYTES:
            self._bytes -= self._heads.popitem(last=False)[1].size

    def drop(self, key: HeadKey) -> None:
        old = self._heads.pop(key, None)
        if old is not None:
            self._bytes -= old.size

    def new_key(self, connection: sqlite3.Connection, table: Table) -> int:
        """Return the id for a new row of heads. The cache counts them, until it is cleared."""
        last = self._last_keys.get(table.name)
        if last is None:
            row = connection.execute(f"SELECT coalesce(max(key), 0) FROM {table.name}_heads").fetchone()
            last = cast("int", row[0])
        self._last_keys[table.name] = last + 1
        return last + 1
