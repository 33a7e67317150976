"""Heads as the committer knows them between batches."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import AnyEntity

CACHED_HEADS: Final = 10_000
CACHED_BYTES: Final = 32 * 1024 * 1024
"""Counted as JSON; as objects they are several times as large."""

HeadKey = tuple[str, str, str]
"""Entity name, tenant, id."""


@dataclass(slots=True)
class KnownHead:
    """What a head was when it was last read or committed; version 0 where there was none. `size` is its body's.

    Not frozen, because one is made for every write; but only its size and its mark are ever set anew."""

    entity: AnyEntity
    tenant: str
    id: str
    version: int = 0
    at: int = 0
    announced: int = 0
    value: Any = None
    erased: bool = False
    size: int = 0


class MongoHeadCache:
    """Bounded; the longest unused leave first. An old entry does no harm: the version in a filter finds it out."""

    def __init__(self) -> None:
        self._heads: OrderedDict[HeadKey, KnownHead] = OrderedDict()
        self._bytes = 0

    def get(self, key: HeadKey) -> KnownHead | None:
        return self._heads.get(key)

    def put(self, heads: Mapping[HeadKey, KnownHead]) -> None:
        for key, head in heads.items():
            self.drop(key)
            self._heads[key] = head
            self._bytes += head.size
        while len(self._heads) > CACHED_HEADS or self._bytes > CACHED_BYTES:
            self._bytes -= self._heads.popitem(last=False)[1].size

    def drop(self, key: HeadKey) -> None:
        old = self._heads.pop(key, None)
        if old is not None:
            self._bytes -= old.size

    def clear(self) -> None:
        self._heads.clear()
        self._bytes = 0
