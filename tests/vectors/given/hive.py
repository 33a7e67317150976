"""Users' own vectors on a real ledger and a real store, called as the bus would call them."""

import uuid
from typing import Any, Final

import orjson

from hivemem_contracts.subjects import Sender
from hivemem_contracts.vectors.operations import VECTORS
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.service import Call, Service
from hivemem_testing.serving import answer_of
from hivemem_vectors.own.decisions import parsed, physical
from hivemem_vectors.own.endpoints import bind
from hivemem_vectors.own.entities import PROGRESS, VECTOR, vector_id
from hivemem_vectors.own.reactions import VectorSync
from hivemem_vectors.stores.ports import Filter, VectorStore
from hivemem_vectors.upkeep.reactions.sweeper import LostCollections

from ..guarding import guarded
from ..tiny_embedder import DIMENSION, MODEL

TENANT: Final = "acme"
Body = dict[str, Any]


class Own:
    """One worker's part for users' own vectors; several may share a ledger and a store."""

    def __init__(self, ledger: SqliteLedger, store: VectorStore) -> None:
        self.ledger = ledger
        self.store = store
        self.collections = LostCollections(ledger)
        self.guarded = guarded(store, ledger, model=MODEL, dimension=DIMENSION, lost=self.collections)
        self.breaker = self.guarded.breaker
        self.settling = VectorSync(ledger, self.guarded)
        self.service = Service(VECTORS, ledger)
        bind(self.service, self.guarded, self.settling)

    async def ask(
        self, operation: str, body: Body, *, tenant: str = TENANT, agent: str = "bot", id: str | None = None
    ) -> Body:
        found = VECTORS.get(operation)
        assert found is not None
        call = Call(Sender(tenant, agent), found, id or uuid.uuid4().hex)
        answer = await answer_of(self.service, call, orjson.dumps(body))
        return orjson.loads(answer) if isinstance(answer, bytes) else answer.model_dump(mode="json")

    async def put(
        self, id: str, *numbers: float, request: str | None = None, tenant: str = TENANT, **fields: Any
    ) -> Body:
        return await self.ask("store", {"id": id, "embedding": numbers, **fields}, tenant=tenant, id=request)

    async def delete(self, id: str, *, request: str | None = None, **fields: Any) -> Body:
        return await self.ask("delete", {"id": id, **fields}, id=request)

    async def nearest(self, *numbers: float, tenant: str = TENANT, **fields: Any) -> list[str]:
        answer = await self.ask("query", {"embedding": numbers, **fields}, tenant=tenant)
        return [item["id"] for item in answer["items"]]

    async def versions(self, id: str, *, dimension: int = 3, collection: str = "default") -> list[int]:
        """Return the versions that have a point in the index."""
        page = await self.store.scroll(physical(dimension), Filter(TENANT))
        points = [parsed(point.id) for point in page.points]
        return sorted(point.version for point in points if point.vector == vector_id(collection, id))

    async def waits(self, id: str, collection: str = "default") -> bool:
        head = await self.ledger.head(PROGRESS, TENANT, vector_id(collection, id))
        assert head is not None
        assert head.value is not None
        return head.value.waiting

    def forgive(self) -> None:
        """Close the breaker, as a successful call after its wait does."""
        self.breaker._opened_until = None  # pyright: ignore[reportPrivateUsage]  # a test does not wait for it

    async def version(self, id: str, collection: str = "default") -> int:
        head = await self.ledger.head(VECTOR, TENANT, vector_id(collection, id))
        return 0 if head is None else head.version
