"""The check of arguments in front of every vector store."""

import math
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import numpy as np

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_vectors.stores.payloads import ID, TENANT
from hivemem_vectors.stores.ports import (
    ALTERNATIVES_PER_CONDITION,
    CONDITIONS_PER_FILTER,
    LONGEST_DIMENSION,
    POINTS_PER_CALL,
    TERMS_PER_CALL,
    TERMS_PER_POINT,
    Between,
    ByWords,
    Condition,
    Equal,
    Filter,
    Hit,
    Nearest,
    OneOf,
    Point,
    PointPage,
    Schema,
    Sparse,
    Value,
    Vector,
    VectorStore,
)

_COLLECTION: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TERMS: Final = 2**32
_INTEGERS: Final = 2**63
_EXACT_INTEGERS: Final = 2**53


class CheckedStore:
    """A store behind a check of all arguments: it refuses with `InvalidRequest` before anything is sent."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self.words = store.words
        self._dimensions: dict[str, int] = {}

    async def check(self) -> None:
        await self._store.check()

    async def close(self) -> None:
        await self._store.close()

    async def ensure_collection(self, collection: str, schema: Schema) -> None:
        check_schema(collection, schema)
        self._dimensions.pop(collection, None)
        await self._store.ensure_collection(collection, schema)

    async def schema(self, collection: str) -> Schema:
        _check_collection(collection)
        return await self._store.schema(collection)

    async def drop_collection(self, collection: str) -> None:
        _check_collection(collection)
        self._dimensions.pop(collection, None)
        await self._store.drop_collection(collection)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        _check_points(await self._dimension(collection), points)
        with self._trusted(collection):
            await self._store.upsert(collection, points)

    async def nearest(self, collection: str, query: Nearest) -> list[Hit]:
        _check_search(query)
        _check_count("among", len(query.among))
        _check_dense(await self._dimension(collection), query.dense)
        with self._trusted(collection):
            return await self._store.nearest(collection, query)

    async def by_words(self, collection: str, query: ByWords) -> list[Hit]:
        _check_search(query)
        _check_collection(collection)
        _check_sparse(query.sparse)
        return await self._store.by_words(collection, query)

    async def best_by_word(self, collection: str, where: Filter, terms: Sequence[int]) -> list[float]:
        _check_collection(collection)
        _check_filter(where)
        _require(len(terms) <= TERMS_PER_CALL, "terms", f"{len(terms)} terms, and {TERMS_PER_CALL} are the most")
        _require(all(0 <= term < _TERMS for term in terms), "terms", "a term that is not of 32 bits")
        return await self._store.best_by_word(collection, where, terms) if terms else []

    async def delete(self, collection: str, tenant: str, ids: Sequence[str]) -> None:
        _check_collection(collection)
        _check_count("ids", len(ids))
        if ids:
            await self._store.delete(collection, tenant, ids)

    async def delete_where(self, collection: str, where: Filter) -> None:
        _check_collection(collection)
        _check_filter(where)
        await self._store.delete_where(collection, where)

    async def scroll(
        self, collection: str, where: Filter | None = None, *, after: str | None = None, limit: int = POINTS_PER_CALL
    ) -> PointPage:
        _check_collection(collection)
        _check_range("limit", limit, POINTS_PER_CALL)
        _check_cursor(after)
        _check_filter(where)
        return await self._store.scroll(collection, where, after=after, limit=limit)

    async def count(self, collection: str, where: Filter | None = None) -> int:
        _check_collection(collection)
        _check_filter(where)
        return await self._store.count(collection, where)

    async def _dimension(self, collection: str) -> int:
        _check_collection(collection)
        if (known := self._dimensions.get(collection)) is None:
            known = self._dimensions[collection] = (await self._store.schema(collection)).dimension
        return known

    @contextmanager
    def _trusted(self, collection: str) -> Generator[None]:
        """Forget the dimension if the store does not agree: another process may have made the collection anew."""
        try:
            yield
        except (NotFound, InvalidRequest):
            self._dimensions.pop(collection, None)
            raise


def _require(holds: bool | np.bool_, field: str, otherwise: str, **context: Any) -> None:
    if not holds:
        raise InvalidRequest(f"{field}: {otherwise}", field=field, **context)


def _check_collection(collection: str) -> None:
    is_name = _COLLECTION.fullmatch(collection) is not None
    _require(is_name, "collection", "not a name of [a-z][a-z0-9_-]{0,62}")


def check_schema(collection: str, schema: Schema) -> None:
    _check_collection(collection)
    _check_range("dimension", schema.dimension, LONGEST_DIMENSION)
    _check_text("model", schema.model)
    for name in schema.fields:
        _check_field(name)


def check_same(collection: str, expected: Schema, actual: Schema) -> None:
    """Refuse a collection that was made for another dimension or model, which `expected` is."""
    for name in ("dimension", "model"):
        was, wanted = getattr(expected, name), getattr(actual, name)
        if was != wanted:
            raise InvalidRequest(
                f"the collection {collection} is of {name} {was}, not {wanted}",
                field=name,
                collection=collection,
                expected=was,
                actual=wanted,
            )


def _check_points(dimension: int, points: Sequence[Point]) -> None:
    _check_count("points", len(points))
    for point in points:
        _check_text("tenant", point.tenant)
        _check_text("id", point.id)
        _check_dense(dimension, point.dense)
        if point.sparse is not None:
            _check_sparse(point.sparse)
        _check_values(point.values)


def _check_count(name: str, count: int) -> None:
    most = POINTS_PER_CALL
    _require(count <= most, name, f"{count}, and a call takes up to {most}", limit=most, actual=count)


def _check_search(query: Nearest | ByWords) -> None:
    _check_range("limit", query.limit, POINTS_PER_CALL)
    _check_filter(query.where)
    for name in query.values or ():
        _check_field(name)


def _check_range(name: str, number: int, most: int) -> None:
    _require(1 <= number <= most, name, f"{number} is not from 1 to {most}")


def _check_cursor(after: str | None) -> None:
    if after is not None:
        try:
            UUID(after)
        except ValueError as error:
            raise InvalidRequest("after: not one that a page has given", field="after") from error


def _check_dense(dimension: int, dense: Vector) -> None:
    if dense.shape != (dimension,):
        actual = dense.shape[0] if dense.ndim == 1 else list(dense.shape)
        raise InvalidRequest(
            f"vector: of dimension {actual}, and the collection's is {dimension}",
            field="vector",
            expected=dimension,
            actual=actual,
        )
    # The cosine divides by the sum of the squares, which overflows before the numbers themselves do.
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.asarray(dense, np.float32)
        squares = np.dot(single, single)
    _require(math.isfinite(squares), "vector", "not of finite numbers, or too large")


def _check_sparse(sparse: Sparse) -> None:
    indices, count = sparse.indices, len(sparse.indices)
    _require(count == len(sparse.values), "sparse", f"{count} indices and {len(sparse.values)} values")
    _require(count <= TERMS_PER_POINT, "sparse", f"{count} terms, and {TERMS_PER_POINT} are the most")
    are_terms = all(0 <= index < _TERMS for index in indices) and len(set(indices)) == count
    _require(are_terms, "sparse", "an index that comes twice, or is not of 32 bits")
    _require(np.isfinite(np.asarray(sparse.values, np.float32)).all(), "sparse", "not of finite numbers")


def _check_filter(where: Filter | None) -> None:
    if where is None:
        return
    _check_text("tenant", where.tenant)
    is_short = len(where.conditions) <= CONDITIONS_PER_FILTER
    _require(is_short, "filter", f"more than {CONDITIONS_PER_FILTER} conditions")
    for condition in where.conditions:
        _check_field(condition.field)
        _check_condition(condition)


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{name}: not Unicode text", field=name) from error


def _check_condition(condition: Condition) -> None:
    match condition:
        case Equal(name, value):
            _require(not isinstance(value, bool), name, "neither text nor an integer")
            _check_match(name, [value])
        case OneOf(name, values):
            is_some = 1 <= len(values) <= ALTERNATIVES_PER_CONDITION
            _require(is_some, name, f"not from 1 to {ALTERNATIVES_PER_CONDITION} values")
            is_of_a_kind = len({type(value) for value in values}) == 1 and not isinstance(values[0], bool)
            _require(is_of_a_kind, name, "neither all text nor all integers")
            _check_match(name, values)
        case Between(name):
            bounds = [condition.at_least, condition.above, condition.at_most, condition.below]
            given = [bound for bound in bounds if bound is not None]
            are_finite = bool(given) and all(math.isfinite(bound) for bound in given)
            _require(are_finite, name, "bounds are finite numbers, at least one")
            is_exact = not any(isinstance(bound, int) and abs(bound) > _EXACT_INTEGERS for bound in given)
            _require(is_exact, name, "a bound over 2**53")


def _check_match(name: str, values: Iterable[str | int]) -> None:
    for value in values:
        if isinstance(value, str):
            _check_text(name, value)
        elif not -_INTEGERS <= value < _INTEGERS:
            raise InvalidRequest(f"{name}: not an integer of 64 bits", field=name)


def _check_field(name: str) -> None:
    if not _FIELD.fullmatch(name) or name in (TENANT, ID):
        raise InvalidRequest(f"{name!r} cannot be the name of a field", field=name)


def _check_values(values: Mapping[str, Value]) -> None:
    for name, value in values.items():
        _check_field(name)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidRequest(f"{name}: not a finite number", field=name)
        elif isinstance(value, str | int):
            _check_match(name, [value])
        else:
            _check_match(name, value)
