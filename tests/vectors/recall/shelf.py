"""A tenant's memories in the memory service and in the index, and recalls of them."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import orjson

from hivemem_contracts.identifiers import new_id
from hivemem_contracts.subjects import Sender
from hivemem_contracts.vectors.operations import RECALL, VECTORS
from hivemem_contracts.vectors.replies import RecallAnswer
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Write
from hivemem_runtime.service import Call, Service
from hivemem_testing import agent
from hivemem_testing.serving import answer_of
from hivemem_vectors.embedders.ports import Embedder
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, version_of_memory
from hivemem_vectors.pipeline.decisions.points import points_of
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, SessionService
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, PENDING, STALE, SYNCED, Item, Mirror, packed
from hivemem_vectors.recall.endpoints.recall import RecallEndpoint, bind
from hivemem_vectors.recall.endpoints.waiting import IndexWaiters
from hivemem_vectors.rerankers.ports import Reranker
from hivemem_vectors.stores.ports import VectorStore

from ..guarding import guarded
from .meaning import MODEL, MeaningEmbedder, embedding_of

Body = dict[str, Any]
NAMESPACE: Final = "user:alice"
CHUNK_BETWEEN: Final = "\n\n"


class MemoryAgent(agent.Agent):
    SERVICE: ClassVar[str] = "memory"

    async def put(self, key: str, value: Any, /, *, namespace: str = NAMESPACE, **fields: Any) -> Body:
        """Put a memory and return it in its wire format."""
        await self.ask("put", {"namespace": namespace, "key": key, "value": value}, **fields)
        return await self.ask("get", {"namespace": namespace, "key": key})


@dataclass
class Desk:
    """The parts of a worker's recall."""

    ledger: Ledger
    store: VectorStore
    memories: MemoryService
    collection: str
    behind: IndexWaiters
    embedder: Embedder = field(default_factory=MeaningEmbedder)
    reranker: Reranker | None = None
    sessions: SessionService = field(default_factory=lambda: SessionService(Asking()))
    """Nobody answers it by default."""

    def service(self) -> Service:
        store = guarded(self.store, self.ledger, model=self.embedder.model, dimension=self.embedder.dimension)
        recall = RecallEndpoint(
            self.ledger,
            store,
            self.embedder,
            self.memories,
            self.sessions,
            self.behind,
            collection=self.collection,
            reranker=self.reranker,
        )
        service = Service(VECTORS, self.ledger)
        bind(service, recall)
        return service


@dataclass
class Shelf:
    """The memories of one tenant."""

    desk: Desk
    bot: MemoryAgent
    service: Service

    @property
    def tenant(self) -> str:
        return self.bot.tenant

    @property
    def embedder(self) -> MeaningEmbedder:
        assert isinstance(self.desk.embedder, MeaningEmbedder)
        return self.desk.embedder

    async def keep(self, key: str, value: Any, **fields: Any) -> Body:
        """Write and index a memory."""
        memory = await self.bot.put(key, value, **fields)
        await self.index(memory)
        return memory

    async def index(self, memory: Body) -> None:
        await self.sync(version_of_memory(self.tenant, memory))

    async def sync(self, told: ItemVersion) -> None:
        """Leave an item as the pipeline does once it is done."""
        await self.upsert(told)
        await self.mirror(told)

    async def mirror(self, told: ItemVersion) -> None:
        """Leave an item without its points, as after the loss of the index."""
        mirror = mirrored(told)
        item = Item(told.version, False, SYNCED, told.version, len(mirror.texts), told=1)
        await self.note(told.place, item, mirror)

    async def upsert(self, told: ItemVersion) -> None:
        """Leave the points alone, as a worker that died right after the upsert."""
        mirror = mirrored(told)
        rows = np.stack([embedding_of(text) for text in mirror.texts])
        points = points_of(self.tenant, told.place, mirror, rows)
        await self.desk.store.upsert(self.desk.collection, points)

    async def wait(self, memory: Body, *, indexed: int | None = None, embedded: bool = False, **fields: Any) -> None:
        """Leave an item as the pipeline does when it cannot index it yet."""
        told = version_of_memory(self.tenant, memory)
        state = PENDING if indexed is None else STALE
        item = Item(told.version, False, state, indexed, 0 if indexed is None else 1, 1, **fields)
        await self.note(told.place, item, mirrored(told, embedded=embedded))

    async def remove(self, memory: Body, version: int) -> None:
        """Leave a deletion as the pipeline does before it removes the points."""
        place = place_of(memory["namespace"], memory["key"])
        await self.note(place, Item(version, True, SYNCED, told=2), Mirror())

    async def item(self, memory: Body) -> Item | None:
        head = await self.desk.ledger.head(ITEM, self.tenant, place_of(memory["namespace"], memory["key"]))
        return None if head is None else head.value

    async def note(self, place: str, item: Item, mirror: Mirror) -> None:
        def decide(heads: Heads, now: int) -> Decision:
            return [Append(ITEM, place, item), Append(MIRROR, place, mirror)]

        await self.desk.ledger.commit(Write(self.tenant, "hivemem", ITEM, place, decide))

    async def answer(self, query: str, **fields: Any) -> Body:
        """Return an answer in its wire format, checked against the contract."""
        call = Call(Sender(self.tenant, self.bot.name), RECALL, new_id())
        data = await answer_of(self.service, call, orjson.dumps({"query": query, **fields}))
        assert isinstance(data, bytes)
        answer: Body = orjson.loads(data)
        validated = RecallAnswer.model_validate_json(data, strict=True)
        assert orjson.loads(validated.model_dump_json()) == answer
        return answer

    async def recall(self, query: str, **fields: Any) -> list[str]:
        """Return the keys of a complete answer."""
        answer = await self.answer(query, **fields)
        assert answer["degraded"] is None, answer["degraded"]
        return keys(answer)


def keys(answer: Body) -> list[str]:
    return [item["key"] for item in answer["items"]]


def mirrored(told: ItemVersion, *, embedded: bool = True) -> Mirror:
    """Return a mirror with one chunk per paragraph."""
    assert told.text is not None
    texts, starts, start = list[str](), list[int](), 0
    for text in told.text.split(CHUNK_BETWEEN):
        texts.append(text)
        starts.append(start)
        start += len(text) + len(CHUNK_BETWEEN)
    rows = packed(np.stack([embedding_of(text) for text in texts])) if embedded else None
    return Mirror(told.version, told.fields, texts, starts, MODEL if embedded else None, rows, told.value)
