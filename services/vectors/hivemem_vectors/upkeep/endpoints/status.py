"""How far the index is: memory by memory, and as a whole."""

import asyncio
from typing import Any, Final

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.vectors import operations, requests
from hivemem_contracts.vectors.models import IndexStatus, PartHealth
from hivemem_contracts.vectors.replies import IndexOverview, StatusPage
from hivemem_runtime.circuit_breaker import Health
from hivemem_runtime.ledger.places import within
from hivemem_runtime.ledger.port import Head, Ledger, value_of
from hivemem_runtime.paging import Bookmark
from hivemem_runtime.service import Call, Service
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import FeedPosition, MemoryService
from hivemem_vectors.pipeline.entities import FAILED, ITEM, PENDING, STALE, SYNCED, Item, places_of, status_fields
from hivemem_vectors.stores.ports import VectorStore

PAGE: Final = 200
"""The most items of a page; their names and errors always fit one answer."""
FINDS: Final = 20
"""The most pages that one answer reads if many items are gone. A short answer has a cursor to continue from."""
CHECK_SECONDS: Final = 1.0
"""How long the store has to say how it is."""


def bind(service: Service, status: "StatusEndpoint") -> None:
    service.handler(operations.STATUS, status.status)
    service.handler(operations.OVERVIEW, status.overview)


class StatusEndpoint:
    def __init__(
        self,
        ledger: Ledger,
        store: VectorStore,
        memories: MemoryService,
        embedder: Embedder,
        indexer: Indexer,
        feed: FeedPosition,
    ) -> None:
        """`store` is the one without the guard, because an open breaker says nothing about now."""
        self._ledger = ledger
        self._store = store
        self._memories = memories
        self._embedder = embedder
        self._indexer = indexer
        self._feed = feed

    async def overview(self, call: Call, body: requests.ReadOverview) -> IndexOverview:
        del body
        synced, pending, stale, failed = [
            await self._ledger.count(ITEM, call.sender.tenant, "state", equals={"shown": state})
            for state in (SYNCED, PENDING, STALE, FAILED)
        ]
        return IndexOverview(
            synced=synced,
            pending=pending,
            stale=stale,
            failed=failed,
            waiting=await self._feed.changes(),
            model=self._embedder.model,
            dimension=self._embedder.dimension,
            embedder=_part(self._indexer.embedder_health()),
            store=_part(await self._store_health()),
        )

    async def _store_health(self) -> Health:
        """Return the health of the store now, because its last call may be long ago."""
        await self._indexer.check_store()
        known = self._indexer.store_health()
        if not known.ready:
            return known
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._store.check()
        except (HiveError, TimeoutError) as error:
            return Health(False, str(error) or "the vector store takes too long")
        return known

    async def status(self, call: Call, body: requests.ReadStatus) -> StatusPage:
        if body.key is None:
            return await self._list(call.sender.tenant, body)
        if body.namespace is None:
            raise InvalidRequest("key: it is a key of a namespace, and none is given", field="key")
        found = await self._named(call, body.namespace, body.key)
        return StatusPage(items=[one for one in found if body.state in (None, one.state)], cursor=None)

    async def _named(self, call: Call, namespace: str, key: str) -> list[IndexStatus]:
        """Return the memory, and in the namespace of a session its event of this id."""
        places = places_of(namespace, key)
        heads = await self._ledger.heads(ITEM, call.sender.tenant, places)
        found = [_status(head) for head in heads.values()]
        memory = await self._memory(call, namespace, key, known=places[0] in heads)
        if memory is not None:
            item = value_of(heads.get(places[0]))
            if item is None or item.heard < memory["version"]:
                others = [_status(head) for place, head in heads.items() if place != places[0]]
                return [_unheard(memory, item), *others]
        return found

    async def _memory(self, call: Call, namespace: str, key: str, *, known: bool) -> dict[str, Any] | None:
        """Return the memory from the memory service. If that does not answer, an item that is `known` will do."""
        try:
            return await self._memories.newest(call.sender.tenant, call.sender.agent, (namespace, key))
        except HiveError as error:
            if not (known and error.retryable):
                raise
            return None

    async def _list(self, tenant: str, body: requests.ReadStatus) -> StatusPage:
        bookmark = Bookmark("status", body.namespace, body.state)
        cursor: str | None = bookmark.find(body.cursor, str)[0] if body.cursor else None
        low, high = (None, None) if body.namespace is None else within(body.namespace)
        index, equals = ("all", {}) if body.state is None else ("state", {"shown": body.state})
        wanted = min(body.limit, PAGE)
        shown: list[IndexStatus] = []
        for _ in range(FINDS):
            page = await self._ledger.find(
                ITEM, tenant, index, equals=equals, low=low, high=high, cursor=cursor, limit=wanted - len(shown)
            )
            shown += [_status(head) for head in page.items if _is_shown(head)]
            cursor = page.cursor
            if cursor is None or len(shown) == wanted:
                break
        return StatusPage(items=shown, cursor=None if cursor is None else bookmark.put(cursor))


def _is_shown(head: Head[Item]) -> bool:
    """Return whether the item is shown. Deleted items that are gone from the index are not."""
    return head.value is not None and not (head.value.gone and head.value.state == SYNCED)


def _status(head: Head[Item]) -> IndexStatus:
    assert head.value is not None, "items are never erased"
    return IndexStatus.model_validate(status_fields(head.id, head.value, head.value.updated_at))


def _unheard(memory: dict[str, Any], item: Item | None) -> IndexStatus:
    indexed = None if item is None else item.indexed
    return IndexStatus(
        namespace=memory["namespace"],
        key=memory["key"],
        version=memory["version"],
        indexed_version=indexed,
        state="pending" if indexed is None else "stale",
        attempts=0,
        updated_at=memory["updated_at"],
    )


def _part(health: Health) -> PartHealth:
    return PartHealth(ready=health.ready, detail=health.detail)
