"""The port of the vector store: what the worker may ask of the index, and what every adapter promises.

A collection holds the points of all tenants that were embedded by one model. A point has a dense vector, compared by
its cosine, a sparse one for the words in it, and values to filter by. A collection is an index and no archive: what
was acknowledged outlives a kill of the store's process, and all of it can be made again from the ledger.

Every call may raise `Unavailable`: the store cannot be reached, or takes too long. The call may then be made again
with the same arguments, for every one of them can be repeated. A collection that does not exist is `NotFound`; what
is over a limit, has another dimension or is no finite number is an `InvalidRequest` before anything is stored.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

POINTS_PER_CALL: Final = 1_000
"""The most points that one call takes or gives."""

SCORED_BY_WORDS: Final = 5
"""Times as many points as are wanted of the sparse side have their score by it: what is further down has hardly any."""

FEWEST_SCORED: Final = 200
"""Of them at least."""

LONGEST_DIMENSION: Final = 8_192
TERMS_PER_POINT: Final = 8_192
CONDITIONS_PER_FILTER: Final = 64
ALTERNATIVES_PER_CONDITION: Final = 256

Vector: TypeAlias = NDArray[np.float32]
Dense: TypeAlias = Vector | Awaitable[Vector | None] | None
"""What is nearest to, on the dense side: it may still be under way."""

Match: TypeAlias = str | int
Value: TypeAlias = str | int | float | bool | Sequence[str]
FieldKind: TypeAlias = Literal["keyword", "integer", "float"]


@dataclass(frozen=True, slots=True)
class Schema:
    """What a collection is made for. `fields` are the values that filters name often, which are indexed; `tenant`
    always is."""

    dimension: int
    model: str
    fields: Mapping[str, FieldKind] = field(default_factory=dict[str, FieldKind])


class Sparse(Protocol):
    """Weights of terms: each index once, as an unsigned integer of 32 bits."""

    @property
    def indices(self) -> Sequence[int]: ...
    @property
    def values(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Point:
    """`id` is any text, apart for each tenant; a point of the same id is replaced. The names of `values` are of
    `[a-z][a-z0-9_]*`, and neither `id` nor `tenant`."""

    tenant: str
    id: str
    dense: Vector
    sparse: Sparse | None = None
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True)
class Equal:
    """The field has the value, of a list among its words. What is true or false is no value to compare with."""

    field: str
    value: Match


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field has one of the values, which are all text or all integers."""

    field: str
    values: Sequence[str] | Sequence[int]


@dataclass(frozen=True, slots=True)
class Between:
    """The number is within all bounds that are given. `or_missing` lets points pass that have no such field.

    Integers are compared exactly up to 2**53, which times in microseconds are below for the next 250 years.
    """

    field: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    or_missing: bool = False


Condition: TypeAlias = Equal | OneOf | Between


@dataclass(frozen=True, slots=True)
class Filter:
    """The points of a tenant for which all conditions hold."""

    tenant: str
    conditions: Sequence[Condition] = ()


class Hit(NamedTuple):
    """A point that was found, with its score on each side that was asked for, however it was found.

    `dense` is the cosine. `sparse` is the sum, over the terms in common, of weight by weight by the inverse document
    frequency of the term in the collection; 0.0 where none is, and for what is far down on that side (see
    `SCORED_BY_WORDS`). A side that was not asked for is None.
    """

    id: str
    dense: float | None
    sparse: float | None
    values: Mapping[str, Value]


class StoredPoint(NamedTuple):
    tenant: str
    id: str
    values: Mapping[str, Value]


class Page(NamedTuple):
    points: list[StoredPoint]
    next: str | None
    """Where the next page begins; None after the last one."""


class VectorStore(Protocol):
    """Where vectors are kept. Names of collections are of `[a-z][a-z0-9_-]{0,62}`."""

    async def check(self) -> None:
        """Raise `Unavailable` if the store cannot be used now."""
        ...

    async def close(self) -> None:
        """Let go; what was acknowledged is durable. Twice is fine."""
        ...

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        """Make the collection where it is missing, and the indexes of fields that it lacks.

        Raises `InvalidRequest` with `expected` and `actual` where it is made for another dimension or model.
        """
        ...

    async def schema(self, collection: str) -> Schema:
        """What the collection was made for."""
        ...

    async def drop_collection(self, collection: str) -> None:
        """Remove a collection and its points; one that is not there is fine."""
        ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, up to `POINTS_PER_CALL`; the next search finds them. Waits while too much is under way.

        Where it fails with `Unavailable`, some of them may be stored.
        """
        ...

    async def search(
        self,
        collection: str,
        where: Filter,
        *,
        dense: Dense = None,
        sparse: Sparse | None = None,
        limit: int,
        exact: bool = False,
        values: Sequence[str] | None = None,
    ) -> list[Hit]:
        """The best `limit` points of each side, so up to twice as many; those of the dense side first.

        While a `dense` that is awaited is still to come, the sparse side is searched; where it turns out to be None,
        that is as if it had been None from the first.

        `exact` compares with every point, however long that takes. A point without common terms is none of the sparse
        side's. A hit has those of its point's values that `values` names, or all: the fewer, the sooner it is here.
        """
        ...

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        """Remove points, up to `POINTS_PER_CALL`; those that are not there are fine."""
        ...

    async def delete_where(self, collection: str, where: Filter) -> None:
        """Remove all points that the filter lets pass."""
        ...

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> Page:
        """Points in an order of the store's own, with their values; of all tenants where there is no filter.

        What comes or goes meanwhile may be missed; what stays is seen once.
        """
        ...

    async def count(self, collection: str, where: Filter | None = None) -> int: ...
