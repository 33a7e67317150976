"""The rules of vectors that users store themselves: what is taken, which version counts, what the index has of it.

The ledger comes first. A point is named after the version that it is of, so that what reaches the index late never
stands in the place of what is newer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, value_of
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
"""In the place of a model: whoever stores them knows what made them."""

FIELDS: Final[Mapping[str, FieldKind]] = {"collection": "keyword", "vector": "keyword", "metadata": "keyword"}
_NAME: Final = "vectors-"
_SEPARATOR: Final = "\x00"


class VectorPoint(NamedTuple):
    vector: str
    version: int


def physical(dimension: int) -> str:
    """The collection of the store that has the vectors of one dimension, of all tenants and collections."""
    return f"{_NAME}{dimension}"


def physical_schema(dimension: int) -> Schema:
    return Schema(dimension, MODEL, FIELDS)


def point_name(vector: str, version: int) -> str:
    return f"{vector}{_SEPARATOR}{version}"


def parsed(name: str) -> VectorPoint:
    vector, version = name.rsplit(_SEPARATOR, 1)
    return VectorPoint(vector, int(version))


def given_vector(embedding: Sequence[float]) -> Vector:
    """What was sent, in single precision. Raises `InvalidRequest` where it has no direction there."""
    with np.errstate(over="ignore"):
        vector = np.asarray(embedding, np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise InvalidRequest("embedding: a number is too large for single precision", field="embedding")
    if not vector.any():
        raise InvalidRequest("embedding: all zeros, which point nowhere: no cosine can be had", field="embedding")
    return vector


def direction(vector: Vector) -> Vector:
    """With length 1: what stores make of very long and very short vectors is not the same everywhere."""
    wide = vector.astype(np.float64)
    unit: Vector = (wide / np.linalg.norm(wide)).astype(np.float32)
    return unit


def exact_cosines(unit: Vector, vectors: Sequence[Vector]) -> list[float]:
    """How near each of them points to a direction."""
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
    """Raises `NotFound` where nothing was ever stored in the collection."""
    if head is None or head.value is None:
        raise NotFound(f"there is no collection {collection!r}", collection=collection)
    return head.value.dimension


def store_vector(heads: Heads, vector: str, embedding: Vector, metadata: dict[str, Any], now: int) -> Decision:
    """The vector, its progress, and the collection where this is its first."""
    collection, _ = collection_and_id(vector)
    appends: list[Append[Any, Any]] = []
    made = heads(COLLECTION, collection)
    if made is None or made.value is None:
        appends.append(Append(COLLECTION, collection, VectorCollection(len(embedding))))
    else:
        check_dimension(collection, made.value.dimension, embedding)
    return [*_changed(heads, vector, StoredVector(packed_vector(embedding), metadata), now), *appends]


def delete_vector(heads: Heads, vector: str, now: int) -> Decision:
    """Nothing where there is none."""
    head = heads(VECTOR, vector)
    if head is None or head.value is None or head.value.embedding is None:
        return []
    return _changed(heads, vector, StoredVector(None), now)


def _changed(heads: Heads, vector: str, stored: StoredVector, now: int) -> list[Append[Any, Any]]:
    head, before = heads(VECTOR, vector), heads(PROGRESS, vector)
    version = 1 if head is None else head.version + 1
    indexed = None if before is None or before.value is None else before.value.indexed
    collection, _ = collection_and_id(vector)
    progress = VectorProgress(collection, version, waiting=True, changed_at=now, indexed=indexed)
    return [Append(VECTOR, vector, stored), Append(PROGRESS, vector, progress)]


class Settlement(NamedTuple):
    """What to note, and the names of the points that are of no use then."""

    appends: list[Append[VectorProgress, VectorProgress]]
    useless: list[str]


def settle(heads: Heads, brought: Mapping[str, int], removed: Mapping[str, int]) -> Settlement:
    """The index has the versions `brought`, and nothing more of vectors up to those `removed`.

    Of no use is the point of the version before, or what was brought after a newer one was stored.
    """
    settlement = Settlement([], [])
    for vector, version in {**brought, **removed}.items():
        indexed = version if vector in brought else None
        head = heads(PROGRESS, vector)
        progress = value_of(head)
        if progress is None or progress.version != version:
            if indexed is not None:
                settlement.useless.append(point_name(vector, indexed))
            continue
        if indexed is not None and progress.indexed is not None and progress.indexed != indexed:
            settlement.useless.append(point_name(vector, progress.indexed))
        if progress.waiting or progress.indexed != indexed:
            noted = replace(progress, waiting=False, indexed=indexed)
            settlement.appends.append(Append(PROGRESS, vector, noted))
    return settlement


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
    """The points of a vector at a version and all before it."""
    return Filter(tenant, [Equal("vector", vector), Between("version", at_most=version)])


def wanted_words(matched: Mapping[str, str | int | bool] | None) -> list[str] | None:
    """The words of the metadata that have to be there; None where no metadata can have them."""
    words: list[str] = []
    for name, value in (matched or {}).items():
        if len(str(value)) > WORD_CHARACTERS:
            return None
        words.append(metadata_word(name, value))
    return words


def holds(words: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Whether the metadata has all of the words; as the index sees it, with the same limits."""
    return not words or set(words) <= set(metadata_words(metadata))
