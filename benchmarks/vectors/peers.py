"""LangGraph's AsyncSqliteStore with its index, on a file of its own: the same texts, the same embeddings, the same
model for the questions."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

import aiosqlite
from langgraph.store.base import PutOp
from langgraph.store.sqlite.aio import AsyncSqliteStore
from langgraph.store.sqlite.base import SqliteIndexConfig

from benchmarks.vectors.corpus import Corpus
from hivemem_vectors.embedders.offline.embedder import DIMENSION, OfflineEmbedder

_NAMESPACES: Final = 100


def _sqlite() -> ModuleType:
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    import pysqlite3  # if Python's own sqlite3 was built without extensions

    module: ModuleType = pysqlite3
    return module


@asynccontextmanager
async def open_store(file: Path, index: SqliteIndexConfig) -> AsyncGenerator[AsyncSqliteStore]:
    """Connect as `from_conn_string` does, but by a module that can load the extension."""
    async with aiosqlite.Connection(lambda: _sqlite().connect(str(file), isolation_level=None), 64) as connection:
        store = AsyncSqliteStore(connection, index=index)
        await store.setup()
        yield store


def _place(number: int) -> tuple[str, ...]:
    return ("user", f"u{number % _NAMESPACES}", "notes")


class LangGraphContender:
    """A store in the measuring process, with the advantage that it needs no bus."""

    name = "langgraph"

    def __init__(self, store: AsyncSqliteStore, stack: AsyncExitStack) -> None:
        self._store = store
        self._stack = stack

    @classmethod
    async def open(cls, directory: Path, corpus: Corpus) -> "LangGraphContender":
        stack = AsyncExitStack()
        embedder = OfflineEmbedder()
        stack.push_async_callback(embedder.close)

        async def embed(texts: list[str]) -> list[list[float]]:
            if all(map(corpus.is_made, texts)):
                return corpus.embeddings(texts).tolist()
            return (await embedder.embed(texts)).tolist()

        index: SqliteIndexConfig = {"dims": DIMENSION, "embed": embed, "fields": ["text"]}
        return cls(await stack.enter_async_context(open_store(directory / "langgraph.db", index)), stack)

    async def put_batch(self, corpus: Corpus, numbers: list[int]) -> None:
        await self._store.abatch(
            [PutOp(_place(number), str(number), {"text": corpus.text(number)}) for number in numbers]
        )

    async def recall(self, question: str, limit: int, prefix: str | None = None) -> list[str]:
        place = tuple((prefix or "user").split(":"))
        return [found.key for found in await self._store.asearch(place, query=question, limit=limit)]

    async def close(self) -> None:
        await self._stack.aclose()
