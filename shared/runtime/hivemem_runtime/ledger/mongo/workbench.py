"""What everything that writes shares: the database, a session, the heads known so far, the marks to be stored."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pymongo.errors import PyMongoError

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.mongo.cache import HeadKey, MongoHeadCache
from hivemem_runtime.ledger.mongo.driver import MAJORITY, Database, Session
from hivemem_runtime.ledger.mongo.errors import (
    CommitUnknown,
    Conflict,
    committing,
    translated,
    unavailable,
)
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.port import Committed, Listener

_COMMIT_TRIES: Final = 2
_TRIES: Final = 5

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class Workbench:
    database: Database
    entities: Mapping[str, AnyEntity]
    clock: Callable[[], int]
    memory_microseconds: int
    cache: MongoHeadCache = field(default_factory=MongoHeadCache)
    marks: dict[HeadKey, int] = field(default_factory=dict[HeadKey, int])
    feed: FeedMark | None = None
    """The newest feed mark that is not durable yet."""
    fence: FeedMark | None = None
    """The newest feed mark of this worker, on whose feed its marks of keys rely."""
    listeners: list[Listener] = field(default_factory=list[Listener])
    settled: str | None = None
    """The last attempt whose outcome is known: nobody needs its trace any more."""
    _session: Session | None = None
    _prefix: str = field(default_factory=lambda: secrets.token_hex(6))
    _tokens: int = 0

    def token(self) -> str:
        """A name for one attempt to write, by which its traces are known again."""
        self._tokens += 1
        return f"{self._prefix}-{self._tokens}"

    def tell(self, committed: Sequence[Committed]) -> None:
        """Call the listeners. A durable write is acknowledged even if a listener fails; the event loop reports that."""
        for listener in self.listeners:
            try:
                listener(committed)
            except Exception as error:  # any fault
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "a listener of the ledger failed", "exception": error})

    def operations(self) -> Operations:
        return Operations(self.database.name)

    async def write(self, operations: Operations) -> None:
        """Run operations outside a transaction, durable on a majority. They must be safe to repeat."""
        with translated():
            replies = [
                await self.database.command({**command, "writeConcern": MAJORITY}, admin=True)
                for command in operations.commands()
            ]
        operations.check(replies)

    async def transact(self, operations: Operations) -> None:
        """All or nothing. Raises `Conflict` where a document is not as the operations expect it, `CommitUnknown`
        where the connection was lost at the wrong moment."""
        session = await self._begun()
        try:
            with translated():
                replies = [
                    await self.database.command(command, admin=True, session=session)
                    for command in operations.commands()
                ]
            operations.check(replies)
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


async def persistently(attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Again after a conflict or a lost connection. Each attempt reads anew what became of the one before."""
    for last in (False,) * (_TRIES - 1) + (True,):
        try:
            return await attempt()
        except Conflict as error:
            if last:
                raise unavailable("others wrote the same key all the time") from error
        except Unavailable:
            if last:
                raise
    raise AssertionError("the last attempt answers or raises")
