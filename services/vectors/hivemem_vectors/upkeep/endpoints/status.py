"""How far the index is: memory by memory, and as a whole."""

import asyncio
from typing import Any, Final, Protocol

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.vectors import operations, requests
from hivemem_contracts.vectors.models import IndexStatus, PartHealth
from hivemem_contracts.vectors.replies import IndexOverview, StatusPage
from hivemem_runtime.ledger.places import place_of, within
from hivemem_runtime.ledger.port import Head, Ledger, value_of
from hivemem_runtime.paging import Bookmark
from hivemem_runtime.service import Call, Service
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.endpoints.health import Health
from hivemem_vectors.pipeline.endpoints.memory_service import Memories
from hivemem_vectors.pipeline.entities import FAILED, ITEM, PENDING, STALE, SYNCED, Item, event_place, status_fields
from hivemem_vectors.stores.ports import VectorStore

PAGE: Final = 200
"""The names and errors of so many always fit one answer."""
FINDS: Final = 20
"""So many times one answer looks for more, where much is gone; a short page then comes with a cursor to go on from."""
CHECK_SECONDS: Final = 1.0
"""How long the store has to say how it is."""
_SESSION: Final = "session:"


class Parts(Protocol):
    """What the index stands on, as it was when it was last asked."""

    async def check_store(self) -> None:
        """Ask it again, if it was not well."""
        ...

    def store_health(self) -> Health: ...

    def embedder_health(self) -> Health: ...


class Waiting(Protocol):
    async def changes(self) -> int:
        """On the feed, of all tenants, that are not taken up yet."""
        ...


class Status:
    def __init__(
        self,
        ledger: Ledger,
        store: VectorStore,
        memories: Memories,
        embedder: Embedder,
        parts: Parts,
        waiting: Waiting,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._memories = memories
        self._embedder = embedder
        self._parts = parts
        self._waiting = waiting

    def bind(self, service: Service) -> None:
        service.handler(operations.STATUS, self.status)
        service.handler(operations.OVERVIEW, self.overview)

    async def overview(self, call: Call, body: requests.ReadOverview) -> IndexOverview:
        del body
        counts = {state: await self._count(call.sender.tenant, state) for state in (SYNCED, PENDING, STALE, FAILED)}
        return IndexOverview(
            synced=counts[SYNCED],
            pending=counts[PENDING],
            stale=counts[STALE],
            failed=counts[FAILED],
            waiting=await self._waiting.changes(),
            model=self._embedder.model,
            dimension=self._embedder.dimension,
            embedder=_part(self._parts.embedder_health()),
            store=_part(await self._store_health()),
        )

    async def _store_health(self) -> Health:
        """As it is now: nobody may have asked it for long."""
        await self._parts.check_store()
        known = self._parts.store_health()
        if not known.ready:
            return known
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._store.check()
        except (HiveError, TimeoutError) as error:
            return Health(False, str(error) or "the vector store takes too long")
        return known

    async def _count(self, tenant: str, state: str) -> int:
        return await self._ledger.count(ITEM, tenant, "state", equals={"shown": state})

    async def status(self, call: Call, body: requests.ReadStatus) -> StatusPage:
        if body.key is None:
            return await self._list(call.sender.tenant, body)
        if body.namespace is None:
            raise InvalidRequest("key: it is a key of a namespace, and none is given", field="key")
        found = await self._named(call, body.namespace, body.key)
        return StatusPage(items=[one for one in found if body.state in (None, one.state)], cursor=None)

    async def _named(self, call: Call, namespace: str, key: str) -> list[IndexStatus]:
        """The memory, and in the namespace of a session its event of this id."""
        places = [place_of(namespace, key)]
        session_id = namespace.removeprefix(_SESSION)
        if namespace.startswith(_SESSION) and ":" not in session_id:
            places.append(event_place(session_id, key))
        heads = await self._ledger.heads(ITEM, call.sender.tenant, places)
        found = [_status(head) for head in heads.values()]
        memory = await self._memory(call, namespace, key, known=places[0] in heads)
        if memory is not None:
            head = heads.get(places[0])
            item = value_of(head)
            if item is None or item.heard < memory["version"]:
                others = [_status(head) for place, head in heads.items() if place != places[0]]
                return [_unheard(memory, item), *others]
        return found

    async def _memory(self, call: Call, namespace: str, key: str, *, known: bool) -> dict[str, Any] | None:
        """As the memory service has it. Raises where that does not answer, and nothing else is known."""
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
    """What is gone, and gone from the index, is nobody's concern any more."""
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
