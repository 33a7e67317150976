"""What everything that writes shares: the database, a session, the heads known so far, the marks to be stored."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo.errors import PyMongoError

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo.cache import HeadCache, HeadKey
from hivemem_runtime.ledger.mongo.driver import MAJORITY, Database, Document, Session
from hivemem_runtime.ledger.mongo.errors import CommitUnknown, Conflict, committing, raise_for_errors, translated
from hivemem_runtime.ledger.port import Committed, Listener

_COMMIT_TRIES: Final = 2


class Operations:
    """A bulk write over several collections, as one command. Every `update` and `replace` must change its document."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._places: dict[str, int] = {}
        self._writes: list[Document] = []
        self._updates = 0

    def insert(self, collection: str, document: Document) -> None:
        self._writes.append({"insert": self._place(collection), "document": document})

    def update(self, collection: str, where: Document, changes: Document) -> None:
        self._writes.append({"update": self._place(collection), "filter": where, "updateMods": changes})
        self._updates += 1

    def replace(self, collection: str, identity: Document, expected: Document, document: Document) -> None:
        """A new document in the place of one with the expected values. They are compared inside the update, because
        the server plans each filter on more than `_id` anew, which costs as much again as the update itself."""
        same = [{"$eq": [f"${name}", value]} for name, value in expected.items()]
        replacement = {"$literal": {"_id": identity, **document}}
        step = {"$replaceWith": {"$cond": [{"$and": same}, replacement, "$$ROOT"]}}
        self._writes.append({"update": self._place(collection), "filter": {"_id": identity}, "updateMods": [step]})
        self._updates += 1

    def put(self, collection: str, document: Document) -> None:
        """Insert a document, or change what is there: to something else, where there are updates that must."""
        where = {"_id": document["_id"]}
        self._writes.append(
            {"update": self._place(collection), "filter": where, "updateMods": document, "upsert": True}
        )

    def update_where(self, collection: str, where: Document, pipeline: Sequence[Document]) -> None:
        """An update that may find nothing. Not to be mixed with those that must."""
        self._writes.append({"update": self._place(collection), "filter": where, "updateMods": list(pipeline)})

    def delete(self, collection: str, where: Document) -> None:
        self._writes.append({"delete": self._place(collection), "filter": where, "multi": True})

    def command(self) -> Document:
        return {
            "bulkWrite": 1,
            "ops": self._writes,
            "nsInfo": [{"ns": f"{self._database}.{name}"} for name in self._places],
            "ordered": False,
            "errorsOnly": True,
        }

    def check(self, reply: Mapping[str, Any]) -> None:
        raise_for_errors(reply)
        if self._updates and reply["nModified"] != self._updates:
            raise Conflict("a head is not what it was")

    def __len__(self) -> int:
        return len(self._writes)

    def _place(self, collection: str) -> int:
        return self._places.setdefault(collection, len(self._places))


@dataclass(slots=True)
class Workbench:
    database: Database
    entities: Mapping[str, AnyEntity]
    clock: Callable[[], int]
    memory_microseconds: int
    cache: HeadCache = field(default_factory=HeadCache)
    marks: dict[HeadKey, int] = field(default_factory=dict[HeadKey, int])
    listeners: list[Listener] = field(default_factory=list[Listener])
    _session: Session | None = None
    _prefix: str = field(default_factory=lambda: secrets.token_hex(6))
    _tokens: int = 0

    def token(self) -> str:
        """A name for one attempt to write, by which its traces are known again."""
        self._tokens += 1
        return f"{self._prefix}-{self._tokens}"

    def tell(self, committed: Sequence[Committed]) -> None:
        """What is durable is acknowledged, whatever a listener makes of it: its fault is the loop's to report."""
        for listener in self.listeners:
            try:
                listener(committed)
            except Exception as error:  # any fault
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "a listener of the ledger failed", "exception": error})

    def operations(self) -> Operations:
        return Operations(self.database.name)

    async def write(self, operations: Operations) -> None:
        """Each operation by itself, durable on a majority; for what may be done again without harm."""
        with translated():
            reply = await self.database.command({**operations.command(), "writeConcern": MAJORITY}, admin=True)
        operations.check(reply)

    async def transact(self, operations: Operations) -> None:
        """All or nothing. Raises `Conflict` where a document is not as the operations expect it, `CommitUnknown`
        where the connection was lost at the wrong moment."""
        session = await self._begun()
        try:
            with translated():
                reply = await self.database.command(operations.command(), admin=True, session=session)
            operations.check(reply)
        except BaseException:
            await self._abandon(session)
            raise
        await self._commit(session)

    async def close(self) -> None:
        if self._session is not None:
            await self._abandon(self._session)

    async def _begun(self) -> Session:
        with translated():
            if self._session is None:
                self._session = await self.database.start_session()
            await self._session.begin()
        return self._session

    async def _commit(self, session: Session) -> None:
        unknown: CommitUnknown | None = None
        for _ in range(_COMMIT_TRIES):
            try:
                with committing():
                    await session.commit()
                return
            except CommitUnknown as error:
                unknown = error
            except BaseException as error:
                await self._abandon(session)
                if unknown is not None:
                    raise unknown from error
                raise
        await self._kill(session)
        await self._abandon(session)
        assert unknown is not None
        raise unknown

    async def _kill(self, session: Session) -> None:
        """A transaction whose commit never arrived would keep its documents locked for a minute, so end it. After
        that it is either committed or it never will be."""
        with suppress(PyMongoError):
            await self.database.command({"killSessions": [session.identity]}, admin=True)

    async def _abandon(self, session: Session) -> None:
        """Give the locks back if the server can be told, and begin the next transaction on another session."""
        self._session = None
        with suppress(PyMongoError):
            await session.end()
