"""The only module that knows which driver is used: Motor, or PyMongo's own asynchronous client.

Both have the same calls; where one is a coroutine and the other is not, `_settled` makes them alike. So the day of the
switch is another value for `DEFAULT_DRIVER`.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl, urlsplit

from bson.codec_options import CodecOptions
from bson.max_key import MaxKey
from bson.min_key import MinKey
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

__all__ = [
    "APPLICATION",
    "DEFAULT_DRIVER",
    "LOWEST",
    "MAJORITY",
    "READ_MAJORITY",
    "TOPMOST",
    "Database",
    "Document",
    "DriverName",
    "Query",
    "Session",
]

DriverName = Literal["motor", "pymongo"]
DEFAULT_DRIVER: Final[DriverName] = "motor"

Document = dict[str, Any]
LOWEST: Final = MinKey()
TOPMOST: Final = MaxKey()
MAJORITY: Final = {"w": "majority"}
READ_MAJORITY: Final = {"level": "majority"}
"""For reads that are commands: unlike `find`, `command` does not ask for it by itself."""
APPLICATION: Final = "hivemem"
"""What the server knows a worker's connections by."""
_LENIENT: Final[CodecOptions[Document]] = CodecOptions(unicode_decode_error_handler="replace")
"""The server cuts long keys in its error texts, if need be in the middle of a character."""
_NAMESPACE_EXISTS: Final = 48
_INDEX_NOT_FOUND: Final = 27

_PATIENCE: Final[Mapping[str, int]] = {
    "serverSelectionTimeoutMS": 3_000,
    "connectTimeoutMS": 3_000,
    "waitQueueTimeoutMS": 10_000,
}
"""How long the driver waits, where the address itself does not say otherwise."""


ANSWER_SECONDS: Final = 10.0
"""A connection that does not answer for this long counts as lost."""


@dataclass(frozen=True, slots=True)
class Query:
    """One read of a collection. `low` (inclusive) and `high` (exclusive) bound the keys of the index in `hint`."""

    filter: Mapping[str, Any]
    fields: Mapping[str, Any] | None = None
    sort: Sequence[tuple[str, int]] = ()
    limit: int = 0
    hint: str | None = None
    low: Sequence[tuple[str, Any]] = ()
    high: Sequence[tuple[str, Any]] = ()

    @property
    def options(self) -> dict[str, Any]:
        named = {
            "projection": self.fields,
            "sort": list(self.sort),
            "limit": self.limit,
            "hint": self.hint,
        }
        return {name: value for name, value in named.items() if value}


@dataclass(slots=True)
class Session:
    """A server session, used for one transaction after the other."""

    handle: Any

    async def begin(self) -> None:
        await _settled(
            self.handle.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))
        )

    async def commit(self) -> None:
        await self.handle.commit_transaction()

    async def end(self) -> None:
        """Abort the transaction, unless its commit was sent."""
        await self.handle.end_session()

    @property
    def identity(self) -> Document:
        return dict(self.handle.session_id)


@dataclass(slots=True)
class Database:
    url: str
    name: str
    driver: DriverName = DEFAULT_DRIVER
    answer_seconds: float = ANSWER_SECONDS
    _client: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = {option.lower() for option, _ in parse_qsl(urlsplit(self.url).query)}
        options: dict[str, Any] = {name: value for name, value in _PATIENCE.items() if name.lower() not in given}
        if "sockettimeoutms" not in given:
            options["socketTimeoutMS"] = int(self.answer_seconds * 1_000)
        options |= {"w": "majority", "readConcernLevel": "majority", "readPreference": "primary"}
        options["appname"] = APPLICATION
        if self.driver == "motor":
            self._client = AsyncIOMotorClient[Document](self.url, **options)
        else:
            self._client = AsyncMongoClient[Document](self.url, **options)

    async def close(self) -> None:
        if self.driver == "motor":
            # It says goodbye to the server in the thread that calls it, which must not be the event loop's.
            await asyncio.to_thread(self._client.close)
        else:
            await self._client.close()

    async def start_session(self) -> Session:
        return Session(await _settled(self._client.start_session(causal_consistency=False)))

    async def command(self, command: Document, *, admin: bool = False, session: Session | None = None) -> Document:
        database = self._client.admin if admin else self._client[self.name]
        handle = session.handle if session else None
        reply = await database.command(command, session=handle, codec_options=_LENIENT)
        return cast("Document", reply)

    async def find(self, collection: str, query: Query, session: Session | None = None) -> list[Document]:
        cursor = self._cursor(collection, query, session)
        return cast("list[Document]", await cursor.to_list(None))

    @asynccontextmanager
    async def stream(self, collection: str, query: Query) -> AsyncGenerator[AsyncIterator[Document], None]:
        """The documents one by one, for reads without a bound."""
        cursor = self._cursor(collection, query, None)
        try:
            yield cursor
        finally:
            await cursor.close()

    @asynccontextmanager
    async def aggregate(
        self, collection: str, pipeline: Sequence[Document], *, hint: str
    ) -> AsyncGenerator[AsyncIterator[Document], None]:
        cursor = await _settled(self._client[self.name][collection].aggregate(list(pipeline), hint=hint))
        try:
            yield cursor
        finally:
            await cursor.close()

    async def explain(self, collection: str, query: Query) -> Document:
        return cast("Document", await self._cursor(collection, query, None).explain())

    async def create_collection(self, name: str) -> None:
        await self._unless({"create": name, "writeConcern": MAJORITY}, _NAMESPACE_EXISTS)

    async def drop_index(self, collection: str, name: str) -> None:
        await self._unless({"dropIndexes": collection, "index": name, "writeConcern": MAJORITY}, _INDEX_NOT_FOUND)

    async def indexes(self, collection: str) -> dict[str, Document]:
        """What indexes there are, by name."""
        cursor = await _settled(self._client[self.name][collection].list_indexes())
        return {index["name"]: dict(index) for index in await cursor.to_list(None)}

    async def _unless(self, command: Document, done: int) -> None:
        """Run a command that may find, by its code, that another process has done the same already."""
        try:
            await self.command(command)
        except OperationFailure as error:
            if error.code != done:
                raise

    def _cursor(self, collection: str, query: Query, session: Session | None) -> Any:
        handle = session.handle if session else None
        cursor = self._client[self.name][collection].find(query.filter, session=handle, **query.options)
        if query.low:
            cursor = cursor.min(list(query.low))
        if query.high:
            cursor = cursor.max(list(query.high))
        return cursor


async def _settled(value: Any | Awaitable[Any]) -> Any:
    return await value if inspect.isawaitable(value) else value
