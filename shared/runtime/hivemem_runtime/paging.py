"""Pages: cursors that belong to one list, and answers that end before they grow too large."""

from hashlib import blake2b
from typing import Any, Final

import orjson

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor

EXAMINED: Final = 2_000
"""How many heads one answer may look at; a short page then comes with a cursor to go on from."""
READ_AT_ONCE: Final = 200
"""Heads or records in one read: a page of a thousand takes a few, and none holds much that it has no room for."""


class Bookmark:
    """Makes the cursors of one list and knows them again; `asked` are the fields that make it another list."""

    def __init__(self, name: str, *asked: Any) -> None:
        self._name = name
        self._mark = blake2b(orjson.dumps(asked), digest_size=9).hexdigest()

    def put(self, *place: Any) -> str:
        return encode_cursor(self._name, self._mark, *place)

    def find(self, cursor: str, *kinds: type) -> list[Any]:
        """The place of a cursor. Raises `InvalidRequest` for that of another list."""
        name, mark, *place = decode_cursor(cursor, (str, str, *kinds))
        if name != self._name or mark != self._mark:
            raise InvalidRequest("cursor: it belongs to another list", field="cursor")
        return place


class Lines:
    """The items of one answer, encoded one by one until there is no more room: the first one always has it.

    `average` is how large they are expected to be, which a cursor carries on: who pages through large values should
    not read a hundred for each one that is answered.
    """

    def __init__(self, limit: int, average: int = 0, room: int = REPLY_BYTES) -> None:
        self.items: list[orjson.Fragment] = []
        self._sizes: list[int] = []
        self._limit = limit
        self._expected = max(average, 0)
        self._room = room
        self._full = False

    def __len__(self) -> int:
        return len(self.items)

    @property
    def average(self) -> int:
        return sum(self._sizes) // len(self._sizes) if self._sizes else self._expected

    @property
    def complete(self) -> bool:
        """Return whether the answer has as many items as the caller wants, or no more room."""
        return self._full or len(self.items) >= self._limit

    def add(self, item: Any) -> bool:
        """Take an item, or answer that there is no room for it: then nothing more is taken."""
        if self.complete:
            return False
        data = orjson.dumps(item)
        size = len(data) + 1
        if self.items and size > self._room:
            self._full = True
            return False
        self.items.append(orjson.Fragment(data))
        self._sizes.append(size)
        self._room -= size
        return True

    def cut(self, count: int) -> None:
        """Take back what came after the first `count`."""
        self._room += sum(self._sizes[count:])
        del self.items[count:], self._sizes[count:]
        self._full = False

    def wanted(self, *, sieved: bool = False) -> int:
        """How many to read next: as many as there is probably room for, or more where not all will be taken."""
        missing = READ_AT_ONCE if sieved else min(self._limit - len(self.items), READ_AT_ONCE)
        return max(1, min(missing, 1 + max(self._room, 0) // (self.average or 1)))

    def answer(self, cursor: str | None, **fields: Any) -> bytes:
        """The whole answer, as JSON."""
        return orjson.dumps({**fields, "items": self.items, "cursor": cursor})
