"""Indexers on a real ledger and a real store, and checks that their records match the index."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import format_microseconds, time_from_microseconds
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.tokens import estimated_tokens
from hivemem_testing.waiting import eventually
from hivemem_vectors.embedders.ports import GuardedEmbedder
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, version_of_change
from hivemem_vectors.pipeline.decisions.drafts import Chunker
from hivemem_vectors.pipeline.decisions.keywords import SCHEME
from hivemem_vectors.pipeline.decisions.points import names_of, values_of
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, Name
from hivemem_vectors.pipeline.endpoints.stages import BROKEN_BY
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, SYNCED, Item, Mirror, is_event, unpacked
from hivemem_vectors.stores.ports import Equal, Filter, Nearest, StoredPoint, VectorStore
from hivemem_vectors.upkeep.entities import REMOVAL, Removal
from hivemem_vectors.upkeep.reactions.retries import ItemRetry
from hivemem_vectors.worker import ENTITIES

from ..guarding import guarded
from ..tiny_embedder import TinyEmbedder, row_of

TENANT: Final = "acme"
NAMESPACE: Final = "user:alice"
START: Final = 1_750_000_000_000_000


class Kept(MemoryService):
    """The memory service as a dictionary."""

    def __init__(self) -> None:
        super().__init__(Asking())
        self.living: dict[Name, dict[str, Any]] = {}
        self.is_down = False
        self.asked: list[Name] = []

    async def get_many(self, tenant: str, agent: str, names: Sequence[Name]) -> dict[Name, dict[str, Any]]:
        if self.is_down:
            raise Unavailable("memory.get_many is not answered", retry_after_ms=1)
        self.asked += names
        return {name: self.living[name] for name in names if name in self.living}


class Wall:
    """A clock in seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def memory(key: str, version: int, value: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a memory in its wire format."""
    at = format_microseconds(START + version)
    return {
        "namespace": NAMESPACE,
        "key": key,
        "value": value,
        "memory_type": "semantic",
        "version": version,
        "deleted": False,
        "metadata": {},
        "importance": None,
        "valid_from": None,
        "valid_to": None,
        "expires_at": None,
        "source": None,
        "copied_from": None,
        "digest": "",
        "created_by": "bot",
        "updated_by": "bot",
        "created_at": at,
        "updated_at": at,
        **fields,
    }


def change(operation: str, value: dict[str, Any] | None, key: str, version: int, **fields: Any) -> Change:
    return Change(
        entity="memory",
        operation=operation,
        tenant=fields.pop("tenant", TENANT),
        namespace=NAMESPACE,
        key=key,
        version=version,
        previous_version=version - 1 or None,
        value=value,
        actor="bot",
        at=time_from_microseconds(START + version),
        **fields,
    )


def put(key: str, version: int, value: Any, *, tenant: str = TENANT, **fields: Any) -> ItemVersion:
    return version_of_change(change("put", memory(key, version, value, **fields), key, version, tenant=tenant))


def deleted(key: str, version: int, *, tenant: str = TENANT) -> ItemVersion:
    return version_of_change(change("deleted", memory(key, version, deleted=True), key, version, tenant=tenant))


def erased(key: str, version: int, receipt: str | None = None) -> ItemVersion:
    return version_of_change(change("erased", {"receipt": receipt}, key, version))


def omitted(key: str, version: int) -> ItemVersion:
    return version_of_change(change("put", None, key, version, value_omitted=True))


def place(key: str) -> str:
    return place_of(NAMESPACE, key)


def long_text(words: int, seed: int) -> str:
    """Return sentences of unknown words."""
    generator = np.random.default_rng(seed)
    numbers = generator.integers(0, 10_000, words).tolist()
    return " ".join(f"word{number}." if at % 12 == 11 else f"word{number}" for at, number in enumerate(numbers))


@dataclass
class Bench:
    """One worker; `another` is a second one on the same ledger and store."""

    ledger: SqliteLedger
    store: VectorStore
    embedder: TinyEmbedder = field(default_factory=TinyEmbedder)
    memories: MemoryService = field(default_factory=Kept)
    collection: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex}")

    def __post_init__(self) -> None:
        self.wall = Wall()
        breaker = CircuitBreaker("the embedder", self.wall, broken_by=BROKEN_BY)
        model, dimension = self.embedder.model, self.embedder.dimension
        self.guarded = guarded(self.store, self.ledger, model=model, dimension=dimension, clock=self.wall)
        self.indexer = Indexer(
            self.ledger,
            self.guarded,
            GuardedEmbedder(self.embedder, breaker),
            breaker,
            Chunker(estimated_tokens),
            self.memories,
            collection=self.collection,
        )

    @property
    def kept(self) -> Kept:
        assert isinstance(self.memories, Kept)
        return self.memories

    def another(self) -> "Bench":
        return replace(self)

    async def index(self, *told: ItemVersion) -> None:
        await self.indexer.take_up(told)

    async def retry(self) -> None:
        """Retry all waiting items an hour later, when no back-off delays them any more."""
        self.let_time_pass()
        page = await self.ledger.covered(ITEM, TENANT, "retry", equals={}, limit=1_000)
        await self.indexer.retry(TENANT, [found.id for found in page.items])

    def let_time_pass(self) -> None:
        self.wall.now += 3_600

    def clock(self) -> ItemRetry:
        return ItemRetry(self.ledger, self.indexer)

    async def item(self, key: str, tenant: str = TENANT) -> Item:
        head = await self.ledger.head(ITEM, tenant, place(key))
        assert head is not None
        assert head.value is not None
        return head.value

    async def mirror(self, key: str, tenant: str = TENANT) -> Mirror:
        head = await self.ledger.head(MIRROR, tenant, place(key))
        assert head is not None
        assert head.value is not None
        return head.value

    async def removal(self, receipt: str) -> Removal | None:
        head = await self.ledger.head(REMOVAL, TENANT, receipt)
        return None if head is None else head.value

    async def announced(self, key: str) -> list[tuple[str, int, int]]:
        """Return each announcement of a memory: operation, the announcement's version, the memory's version."""
        records = await self.ledger.history(ITEM, TENANT, place(key), limit=1_000)
        told = [one for record in records for one in ITEM.announce(record.value, record.stamp)]
        return [(one.operation, one.version, one.value["version"]) for one in told]

    async def points(self, tenant: str = TENANT) -> dict[str, StoredPoint]:
        found: dict[str, StoredPoint] = {}
        after: str | None = None
        while True:
            page = await self.store.scroll(self.collection, Filter(tenant), after=after)
            found |= {point.id: point for point in page.points}
            after = page.next
            if after is None:
                return found

    async def check(self, expected: Mapping[str, tuple[int, str | None]], tenant: str = TENANT) -> None:
        """Check that exactly these keys are indexed, each at its version and with its text, None if it was deleted;
        that none of them waits or failed; and that the store has exactly their points."""
        page = await self.ledger.find(ITEM, tenant, "all", equals={}, limit=1_000)
        items = {head.id: head.value for head in page.items if head.value is not None}
        assert {id: item.heard for id, item in items.items()} == {
            place(key): version for key, (version, _) in expected.items()
        }
        for key, (version, text) in expected.items():
            item, mirror = items[place(key)], await self._mirror_or_none(key, tenant)
            assert (item.state, item.error, item.retry_at, item.attempts) == (SYNCED, None, None, 0)
            assert (item.gone, item.indexed) == (text is None, None if text is None else version)
            assert item.chunks == len(mirror.texts)
            assert mirror.version == (None if text is None else version)
            if text is not None:
                _check_texts(mirror, text)
        await self.check_points(tenant)

    async def have_joined(self, tenant: str = TENANT) -> bool:
        """Return whether all events have what their neighbours lend them, which comes last."""
        points = await self.points(tenant)
        return all(point.values["scheme"] == SCHEME for point in points.values())

    async def check_points(self, tenant: str = TENANT) -> None:
        """Check that the store has exactly the points of the items, with the embeddings of their mirrors."""
        page = await self.ledger.find(ITEM, tenant, "all", equals={}, limit=1_000)
        items = {head.id: head.value for head in page.items if head.value is not None}
        indexed = {id: item.indexed for id, item in items.items() if item.indexed is not None}
        names = {name for id, version in indexed.items() for name in names_of(id, version, items[id].chunks)}

        async def exact() -> bool:
            return set(await self.points(tenant)) == names

        # Points of an earlier version are removed after the ledger has the next one.
        await eventually(exact, "nothing is missing, and nothing is double")
        points = await self.points(tenant)
        for id, version in indexed.items():
            mirror = (await self.ledger.heads(MIRROR, tenant, [id]))[id].value
            if mirror is not None and mirror.version == version:
                await self._check_mirror(tenant, id, mirror, points)

    async def _check_mirror(self, tenant: str, id: str, mirror: Mirror, points: dict[str, StoredPoint]) -> None:
        assert mirror.version is not None
        for at, name in enumerate(names_of(id, mirror.version, len(mirror.texts))):
            text, start = mirror.texts[at], mirror.starts[at]
            values = dict(points[name].values)
            assert values == values | values_of(id, mirror.version, mirror.fields, start, len(text))
        if not mirror.texts:
            return
        assert mirror.embeddings is not None
        assert mirror.model == self.embedder.model
        rows = unpacked(mirror.embeddings, len(mirror.texts))
        np.testing.assert_allclose(rows, np.stack([row_of(text) for text in mirror.texts]), atol=1e-3)
        wanted = names_of(id, mirror.version, len(mirror.texts))[-1]
        where = Filter(tenant, [Equal("place", id)])
        [hit] = await self.store.nearest(self.collection, Nearest(where, rows[-1], 1))
        if is_event(id):
            # Its neighbours have a part in its vectors.
            assert points[wanted].values["scheme"] == SCHEME
            return
        assert hit.score > 0.999
        assert hit.id == wanted or len(set(mirror.texts)) < len(mirror.texts)

    async def _mirror_or_none(self, key: str, tenant: str) -> Mirror:
        head = await self.ledger.head(MIRROR, tenant, place(key))
        return Mirror() if head is None or head.value is None else head.value


def _check_texts(mirror: Mirror, text: str) -> None:
    """Check that each chunk is at its stated position, and that together they are the whole text."""
    covered = [False] * len(text)
    for piece, start in zip(mirror.texts, mirror.starts, strict=True):
        assert text[start : start + len(piece)] == piece
        covered[start : start + len(piece)] = [True] * len(piece)
    assert all(done or char.isspace() for done, char in zip(covered, text, strict=True))


def open_ledger(folder: Path) -> SqliteLedger:
    return SqliteLedger(folder / "vectors.db", ENTITIES)


async def sweep(bench: Bench) -> None:
    """Remove points that no item names, left by stopped workers and failed calls, as a sweep does."""
    page = await bench.ledger.find(ITEM, TENANT, "all", equals={}, limit=1_000)
    indexed = {head.id: head.value.indexed for head in page.items if head.value is not None}
    useless = [
        name
        for name, point in (await bench.points()).items()
        if indexed.get(str(point.values["place"])) != point.values["version"]
    ]
    await bench.guarded.delete(bench.collection, TENANT, useless)
