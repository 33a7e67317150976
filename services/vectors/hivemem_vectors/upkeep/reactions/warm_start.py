"""The warm start: slow first calls are made before anybody needs them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.settings import PREFIX, SettingsError
from hivemem_vectors.pipeline.endpoints.indexing import Indexer

log = structlog.get_logger("hivemem.vectors")

LOAD_AFTER_SECONDS: Final = 0.5
"""The delay before models are loaded, because the import of its runtime holds up the whole process."""

Load = Callable[[], Awaitable[None]]


def of_another_model(collection: str, error: InvalidRequest) -> SettingsError:
    return SettingsError(f"{PREFIX}COLLECTION={collection}: {error.detail}; give each model a collection of its own")


class WarmStart(Background):
    """Creates the collection, and loads the models."""

    def __init__(self, indexer: Indexer, collection: str, loads: Sequence[Load], *, prepare_seconds: float) -> None:
        """Set up the parts. `prepare_seconds` is how long a start waits to hear that the collection belongs to another
        model; a store that is down or slow does not keep the worker from starting."""
        self._indexer = indexer
        self._collection = collection
        self._loads = loads
        self._prepare_seconds = prepare_seconds
        self._tasks: list[asyncio.Task[None]] = []
        self._is_late = False

    async def start(self, client: Client) -> None:
        """Raises `SettingsError` where the collection was made for another model."""
        del client
        preparing = asyncio.create_task(self._prepare(), name="hivemem-vectors-prepare")
        self._tasks = [preparing]
        await asyncio.wait({preparing}, timeout=self._prepare_seconds)
        if preparing.done() and preparing.exception() is not None:
            await self.stop()  # a part that did not start is not stopped by anybody else
            preparing.result()
        self._is_late = True
        for load in self._loads:
            self._tasks.append(asyncio.create_task(self._warm(load), name="hivemem-vectors-warm"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _prepare(self) -> None:
        try:
            await self._indexer.prepare()
        except InvalidRequest as error:
            wrong = of_another_model(self._collection, error)
            if self._is_late:
                log.error("the collection cannot be used", error=str(wrong))  # noqa: TRY400  # it is told, not traced
            raise wrong from error
        except HiveError as error:
            log.warning("the vector store cannot be used yet", error=str(error))

    async def _warm(self, load: Load) -> None:
        await asyncio.sleep(LOAD_AFTER_SECONDS)
        try:
            await load()
        except HiveError as error:
            log.warning("a model cannot be used yet", error=str(error))
        except Exception:
            log.exception("a model could not be loaded")
