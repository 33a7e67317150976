"""The port of the vector store: what the worker may ask of an index, and what every adapter promises.

A collection holds the points of all tenants that were embedded by one model. A point has a dense vector, compared by
its cosine, a sparse one for the words in it, and values to filter by. A collection is an index and no archive: an
acknowledged change outlives a kill of the store's process, and all of it can be made again from the ledger.

Every call may raise `Unavailable`: the store cannot be reached, or takes too long. Every call may be repeated with the
same arguments. `NotFound` means that the collection does not exist. Arguments over a limit, of another dimension or
without finite numbers are an `InvalidRequest` before anything is stored; `arguments.CheckedStore` sees to that in front
of every adapter, so that adapters need not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

POINTS_PER_CALL: Final = 1_000
"""The most points that one call takes or returns."""

LONGEST_DIMENSION: Final = 8_192
TERMS_PER_POINT: Final = 8_192
TERMS_PER_CALL: Final = 256
"""The most terms that one call asks for."""

CONDITIONS_PER_FILTER: Final = 64
ALTERNATIVES_PER_CONDITION: Final = 256

Vector: TypeAlias = NDArray[np.float32]
Match: TypeAlias = str | int
Value: TypeAlias = str | int | float | bool | Sequence[str]
FieldKind: TypeAlias = Literal["keyword", "integer", "float"]


@dataclass(frozen=True, slots=True)
class Schema:
    """The model and dimension of a collection. `fields` are the values that filters often name, which get an index;
    `tenant` always has one."""

    dimension: int
    model: str
    fields: Mapping[str, FieldKind] = field(default_factory=dict[str, FieldKind])


class Sparse(Protocol):
    """Weights of terms. Each index occurs once, and is an unsigned integer of 32 bits."""

    @property
    def indices(self) -> Sequence[int]: ...
    @property
    def values(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Point:
    """A point of one tenant. `id` is any text; a point of the same tenant and id is replaced. The names of `values`
    match `[a-z][a-z0-9_]*`, and are neither `id` nor `tenant`."""

    tenant: str
    id: str
    dense: Vector
    sparse: Sparse | None = None
    values: Mapping[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True)
class Equal:
    """The field has the value, or is a list that contains it. Booleans cannot be compared with."""

    field: str
    value: Match


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field has one of the values, which are all texts or all integers."""

    field: str
    values: Sequence[str] | Sequence[int]


@dataclass(frozen=True, slots=True)
class Between:
    """The number is within all given bounds. `or_missing` also lets points without the field pass.

    Integers are compared exactly up to 2**53; times in microseconds stay below that for 250 years.
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
    """Matches the points of a tenant for which all conditions hold."""

    tenant: str
    conditions: Sequence[Condition] = ()


class Ability(NamedTuple):
    """Whether a store can do what not every store can, and if not, why."""

    able: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Nearest:
    """A search for the `limit` points nearest to `dense` by cosine, and for the points with the keys `among`, for which
    the filter does not hold. Hits have the values of these names, or all: fewer are faster."""

    where: Filter
    dense: Vector
    limit: int
    among: Sequence[str] = ()
    values: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class ByWords:
    """A search for the `limit` best points by shared terms. With `keys_only`, hits have neither id nor values."""

    where: Filter
    sparse: Sparse
    limit: int
    values: Sequence[str] | None = None
    keys_only: bool = False


class Hit(NamedTuple):
    """A point that a search has found. `key` is the store's own name of the point, for `nearest`."""

    key: str
    score: float
    id: str = ""
    values: Mapping[str, Value] = {}


class StoredPoint(NamedTuple):
    tenant: str
    id: str
    values: Mapping[str, Value]


class PointPage(NamedTuple):
    points: list[StoredPoint]
    next: str | None
    """The mark of the next page; None after the last one."""


class VectorStore(Protocol):
    """A store of vectors. Names of collections match `[a-z][a-z0-9_-]{0,62}`."""

    async def check(self) -> None:
        """Raise `Unavailable` if the store cannot be used now."""
        ...

    async def close(self) -> None:
        """Release everything; acknowledged changes are durable. A second call does nothing."""
        ...

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        """Create the collection if it is missing, and the indexes of fields that it lacks.

        Raises `InvalidRequest` with `expected` and `actual` if it was made for another dimension or model.
        """
        ...

    async def schema(self, collection: str) -> Schema:
        """Return the schema that the collection was made for."""
        ...

    async def drop_collection(self, collection: str) -> None:
        """Remove a collection and its points. A missing collection is fine."""
        ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store at most `POINTS_PER_CALL` points; the next search finds them. Waits while the store is busy.

        If it fails with `Unavailable`, some of them may be stored.
        """
        ...

    @property
    def words(self) -> Ability:
        """Whether the store has `by_words` and `best_by_word`."""
        ...

    async def nearest(self, collection: str, query: Nearest) -> list[Hit]:
        """Return the nearest points, nearest first, and behind them the points `among`; a point may be in both."""
        ...

    async def by_words(self, collection: str, query: ByWords) -> list[Hit]:
        """Return the best points by the terms that they share with the query, best first.

        The score is the sum, over the shared terms, of weight by weight by the inverse document frequency of the term
        in the collection. A point without a shared term is no hit.
        """
        ...

    async def best_by_word(self, collection: str, where: Filter, terms: Sequence[int]) -> list[float]:
        """Return, for each of at most `TERMS_PER_CALL` terms, the best score of `by_words` for that term alone, with
        the weight 1; 0.0 for a term that no point has."""
        ...

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        """Remove at most `POINTS_PER_CALL` points. Missing points are fine."""
        ...

    async def delete_where(self, collection: str, where: Filter) -> None:
        """Remove all points that match the filter."""
        ...

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> PointPage:
        """Return a page of points with their values, in an order of the store's own; without a filter, of all tenants.

        A point that stays is seen exactly once. A point that comes or goes meanwhile may be missed.
        """
        ...

    async def count(self, collection: str, where: Filter | None = None) -> int:
        """Return how many points match the filter; without one, of all tenants."""
        ...
