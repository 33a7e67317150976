"""The entities of users' own vectors: the vectors, their collections, and the progress of the index.

They are acknowledged here first. The index follows from them, and can be made again from them.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from hivemem_runtime.ledger.entity import Index, Scalar, record_entity
from hivemem_vectors.stores.ports import Vector

_BETWEEN: Final = "\x01"
_AFTER: Final = "\x02"


@dataclass(frozen=True, slots=True)
class StoredVector:
    """A vector as its user stored it. Without an embedding it is deleted."""

    embedding: str | None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class VectorProgress:
    """The progress of the index with one vector. It is a small record of its own because it changes twice for each
    vector.

    `version` is the newest version of the vector. While `waiting`, the index may lack it, or still have the deleted
    one. `indexed` is the last version that the index was known to have.
    """

    collection: str
    version: int
    waiting: bool
    changed_at: int
    indexed: int | None = None


@dataclass(frozen=True, slots=True)
class VectorCollection:
    """Head and record alike; its id is its name."""

    dimension: int


def vector_id(collection: str, id: str) -> str:
    return f"{collection}{_BETWEEN}{id}"


def collection_and_id(vector: str) -> tuple[str, str]:
    collection, _, id = vector.partition(_BETWEEN)
    return collection, id


def within_collection(collection: str) -> tuple[str, str]:
    """Return the range of ids of a collection's vectors: the first one, and the end, which is not part of it."""
    return collection + _BETWEEN, collection + _AFTER


def packed_vector(embedding: Vector) -> str:
    """Return the embedding in base64, in single precision."""
    return base64.b64encode(embedding.astype("<f4").tobytes()).decode("ascii")


def unpacked_vector(embedding: str) -> Vector:
    return np.frombuffer(base64.b64decode(embedding), "<f4").astype(np.float32)


def _index_progress(head: VectorProgress) -> Mapping[str, Scalar]:
    return {
        "collection": head.collection if head.waiting else None,
        "changed_at": head.changed_at if head.waiting else None,
    }


VECTOR: Final = record_entity(
    "vector",
    StoredVector,
    indexed=lambda head: {"living": head.embedding is not None},
    indexes=(Index("living", (), None, only="living"),),
    history=False,
)

PROGRESS: Final = record_entity(
    "vector_progress",
    VectorProgress,
    indexed=_index_progress,
    indexes=(Index("waiting", (), "changed_at"), Index("collection", ("collection",), "changed_at")),
    history=False,
)

COLLECTION: Final = record_entity(
    "vector_collection",
    VectorCollection,
    indexes=(Index("all", (), None),),
    history=False,
)
