"""A bulk write over several collections, in as few commands as a server takes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hivemem_runtime.ledger.mongo.driver import Document
from hivemem_runtime.ledger.mongo.errors import Conflict, raise_for_errors

_COMMAND_BYTES: Final = 8 * 1024 * 1024
"""The bodies of one command have at most this many bytes; a server takes 16 MiB with everything around them."""


class Operations:
    """Every `update` and `replace` must change its document."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._places: dict[str, int] = {}
        self._writes: list[Document] = []
        self._full: list[list[Document]] = []
        self._bytes = 0
        self._updates = 0

    def insert(self, collection: str, document: Document, size: int = 0) -> None:
        self._make_room(size)
        self._writes.append({"insert": self._place(collection), "document": document})

    def update(self, collection: str, where: Document, changes: Document) -> None:
        self._writes.append({"update": self._place(collection), "filter": where, "updateMods": changes})
        self._updates += 1

    def replace(self, collection: str, expected: Document, document: Document, size: int = 0) -> None:
        """A new document in the place of one with the expected values. They are compared inside the update, because
        the server plans each filter on more than `_id` anew, which costs as much again as the update itself."""
        self._make_room(size)
        same = [{"$eq": [f"${name}", value]} for name, value in expected.items()]
        step = {"$replaceWith": {"$cond": [{"$and": same}, {"$literal": document}, "$$ROOT"]}}
        where = {"_id": document["_id"]}
        self._writes.append({"update": self._place(collection), "filter": where, "updateMods": [step]})
        self._updates += 1

    def put(self, collection: str, document: Document) -> None:
        """Insert a document, or change what is there: to something else, where there are updates that must."""
        where = {"_id": document["_id"]}
        self._writes.append(
            {"update": self._place(collection), "filter": where, "updateMods": document, "upsert": True}
        )

    def update_many(
        self, collection: str, where: Document, changes: Document | Sequence[Document], hint: str | None = None
    ) -> None:
        """Add an update that may match nothing. Keep it apart from updates that have to match."""
        by = {} if hint is None else {"hint": hint}
        place = self._place(collection)
        self._writes.append({"update": place, "filter": where, "updateMods": changes, "multi": True, **by})

    def delete(self, collection: str, where: Document, hint: str | None = None) -> None:
        by = {} if hint is None else {"hint": hint}
        self._writes.append({"delete": self._place(collection), "filter": where, "multi": True, **by})

    def commands(self) -> Iterator[Document]:
        namespaces = [{"ns": f"{self._database}.{name}"} for name in self._places]
        for writes in (*self._full, self._writes):
            yield {"bulkWrite": 1, "ops": writes, "nsInfo": namespaces, "ordered": False, "errorsOnly": True}

    def check(self, replies: Sequence[Mapping[str, Any]]) -> None:
        for reply in replies:
            raise_for_errors(reply)
        if self._updates and sum(reply["nModified"] for reply in replies) != self._updates:
            raise Conflict("a head is not what it was")

    def __len__(self) -> int:
        return len(self._writes)

    def _place(self, collection: str) -> int:
        return self._places.setdefault(collection, len(self._places))

    def _make_room(self, size: int) -> None:
        if self._writes and self._bytes + size > _COMMAND_BYTES:
            self._full.append(self._writes)
            self._writes = []
            self._bytes = 0
        self._bytes += size
