"""LangGraph's AsyncSqliteStore on a file of its own, with its defaults and without embeddings."""

from contextlib import AsyncExitStack
from pathlib import Path

from langgraph.store.base import PutOp
from langgraph.store.sqlite.aio import AsyncSqliteStore

from benchmarks.memory.item import namespace, value


class LangGraphContender:
    """A store in the measuring process, with the advantage that it needs no bus."""

    name = "langgraph"

    def __init__(self, store: AsyncSqliteStore, stack: AsyncExitStack) -> None:
        self._store = store
        self._stack = stack

    @classmethod
    async def open(cls, directory: Path) -> "LangGraphContender":
        stack = AsyncExitStack()
        file = str(directory / "langgraph.db")
        store = await stack.enter_async_context(AsyncSqliteStore.from_conn_string(file))
        await store.setup()
        return cls(store, stack)

    async def put(self, name: str, key: str, number: int) -> None:
        await self._store.aput(_tuple(name), key, value(number))

    async def get(self, name: str, key: str) -> int:
        found = await self._store.aget(_tuple(name), key)
        assert found is not None, "it was put before"
        return int(found.value["number"])

    async def put_batch(self, name: str, first: int, count: int) -> None:
        place = _tuple(name)
        await self._store.abatch([PutOp(place, str(number), value(number)) for number in range(first, first + count)])

    async def list(self, name: str, limit: int) -> int:
        return len(await self._store.asearch(_tuple(name), limit=limit))

    async def close(self) -> None:
        await self._stack.aclose()


def _tuple(name: str) -> tuple[str, ...]:
    return tuple(namespace(name).split(":"))
