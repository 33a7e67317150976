"""The rules of users' own vectors: validation, versions, and the points of the index.

The ledger comes first. The name of a point contains its version, so that a late write never replaces a newer one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_runtime.ledger.port import Append, Decided, Decision, Head, Heads, value_of
from hivemem_vectors.own.entities import (
    COLLECTION,
    PROGRESS,
    VECTOR,
    StoredVector,
    VectorCollection,
    VectorProgress,
    collection_and_id,
    packed_vector,
)
from hivemem_vectors.pipeline.decisions.points import WORD_CHARACTERS, metadata_word, metadata_words
from hivemem_vectors.stores.ports import Between, Equal, FieldKind, Filter, Point, Schema, Value, Vector

MODEL: Final = "given"
"""The model of such collections: only their users know what made the vectors."""

FIELDS: Final[Mapping[str, FieldKind]] = {"collection": "keyword", "vector": "keyword", "metadata": "keyword"}
_NAME: Final = "vectors-"
_SEPARATOR: Final = "\x00"


class VectorPoint(NamedTuple):
    vector: str
    version: int


def physical(dimension: int) -> str:
    """Return the store's collection of all vectors of one dimension, of all tenants and collections."""
    return f"{_NAME}{dimension}"


def physical_schema(dimension: int) -> Schema:
    return Schema(dimension, MODEL, FIELDS)


def schema_of(collection: str, otherwise: Schema) -> Schema:
    """Return the schema of a collection of the store by its name: `otherwise`, unless it has users' own vectors."""
    dimension = collection.removeprefix(_NAME)
    return physical_schema(int(dimension)) if dimension != collection and dimension.isdecimal() else otherwise


def point_name(vector: str, version: int) -> str:
    return f"{vector}{_SEPARATOR}{version}"


def parsed(name: str) -> VectorPoint:
    vector, version = name.rsplit(_SEPARATOR, 1)
    return VectorPoint(vector, int(version))


def given_vector(embedding: Sequence[float]) -> Vector:
    """Return the vector in single precision. Raises `InvalidRequest` if it overflows, or has no direction."""
    with np.errstate(over="ignore"):
        vector = np.asarray(embedding, np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise InvalidRequest("embedding: a number is too large for single precision", field="embedding")
    if not vector.any():
        raise InvalidRequest("embedding: all zeros, which point nowhere: no cosine can be had", field="embedding")
    return vector


def direction(vector: Vector) -> Vector:
    """Return the vector with length 1, because stores differ in how they treat very long and very short vectors."""
    wide = vector.astype(np.float64)
    unit: Vector = (wide / np.linalg.norm(wide)).astype(np.float32)
    return unit


def exact_cosines(unit: Vector, vectors: Sequence[Vector]) -> list[float]:
    """Return the cosine of each vector with a direction."""
    rows = np.stack(vectors).astype(np.float64)
    scores: list[float] = (rows @ unit.astype(np.float64) / np.linalg.norm(rows, axis=1)).tolist()
    return scores


def check_dimension(collection: str, expected: int, vector: Vector) -> None:
    if len(vector) != expected:
        raise InvalidRequest(
            f"embedding: of dimension {len(vector)}, and the collection {collection!r} is of {expected}",
            field="embedding",
            collection=collection,
            expected=expected,
            actual=len(vector),
        )


def dimension_of(collection: str, head: Head[VectorCollection] | None) -> int:
    """Return the collection's dimension. Raises `NotFound` if nothing was ever stored in it."""
    made = value_of(head)
    if made is None:
        raise NotFound(f"collection {collection!r} does not exist: the first `store` makes it", collection=collection)
    return made.dimension


def store_vector(heads: Heads, vector: str, embedding: Vector, metadata: dict[str, Any], now: int) -> Decision:
    """Store a vector with its progress, and the collection with its first vector."""
    collection, _ = collection_and_id(vector)
    appends: list[Append[Any, Any]] = []
    made = value_of(heads(COLLECTION, collection))
    if made is None:
        appends.append(Append(COLLECTION, collection, VectorCollection(len(embedding))))
    else:
        check_dimension(collection, made.dimension, embedding)
    return [*_changed(heads, vector, StoredVector(packed_vector(embedding), metadata), now), *appends]


def delete_vector(heads: Heads, vector: str, now: int) -> Decision:
    """Delete a vector. For an unknown or deleted vector, decide nothing."""
    stored = value_of(heads(VECTOR, vector))
    if stored is None or stored.embedding is None:
        return []
    return _changed(heads, vector, StoredVector(None), now)


def _changed(heads: Heads, vector: str, stored: StoredVector, now: int) -> list[Append[Any, Any]]:
    head, before = heads(VECTOR, vector), value_of(heads(PROGRESS, vector))
    version = 1 if head is None else head.version + 1
    indexed = None if before is None else before.indexed
    collection, _ = collection_and_id(vector)
    progress = VectorProgress(collection, version, waiting=True, changed_at=now, indexed=indexed)
    return [Append(VECTOR, vector, stored), Append(PROGRESS, vector, progress)]


def settle(brought: Mapping[str, int], removed: Mapping[str, int], heads: Heads, now: int) -> Decided:
    """Note that the index has the versions `brought`, and nothing of vectors up to the versions `removed`.

    The answer is the names of useless points: of the version before, or of one that is outdated by now."""
    del now
    appends, useless = list[Append[Any, Any]](), list[str]()
    for vector, version in {**brought, **removed}.items():
        indexed = version if vector in brought else None
        progress = value_of(heads(PROGRESS, vector))
        if progress is None or progress.version != version:
            if indexed is not None:
                useless.append(point_name(vector, indexed))
            continue
        if indexed is not None and progress.indexed is not None and progress.indexed != indexed:
            useless.append(point_name(vector, progress.indexed))
        if progress.waiting or progress.indexed != indexed:
            appends.append(Append(PROGRESS, vector, replace(progress, waiting=False, indexed=indexed)))
    return Decided(appends, useless)


def point_of(tenant: str, vector: str, version: int, embedding: Vector, metadata: Mapping[str, Any]) -> Point:
    collection, _ = collection_and_id(vector)
    values: dict[str, Value] = {
        "collection": collection,
        "vector": vector,
        "version": version,
        "metadata": metadata_words(metadata),
    }
    return Point(tenant, point_name(vector, version), direction(embedding), None, values)


def up_to(tenant: str, vector: str, version: int) -> Filter:
    """Return a filter for the points of a vector up to a version."""
    return Filter(tenant, [Equal("vector", vector), Between("version", at_most=version)])


def wanted_words(matched: Mapping[str, str | int | bool] | None) -> list[str] | None:
    """Return the words that a filter requires of the metadata; None if no metadata can match."""
    words: list[str] = []
    for name, value in (matched or {}).items():
        if len(str(value)) > WORD_CHARACTERS:
            return None
        words.append(metadata_word(name, value))
    return words


def holds(words: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Return whether the metadata has all of the words, by the same limits as the index."""
    return not words or set(words) <= set(metadata_words(metadata))
