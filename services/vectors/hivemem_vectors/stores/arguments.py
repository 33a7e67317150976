"""What every vector store refuses, checked before anything is sent; and the ids under which it keeps points."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import numpy as np

from hivemem_contracts.errors import InvalidRequest
from hivemem_vectors.stores.ports import (
    ALTERNATIVES_PER_CONDITION,
    CONDITIONS_PER_FILTER,
    LONGEST_DIMENSION,
    POINTS_PER_CALL,
    TERMS_PER_POINT,
    Between,
    Condition,
    Equal,
    Filter,
    OneOf,
    Point,
    Schema,
    Sparse,
    Value,
    Vector,
)

TENANT: Final = "tenant"
ID: Final = "id"
"""The store's own fields of a point."""

_COLLECTION: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TERMS: Final = 2**32
_INTEGERS: Final = 2**63
_EXACT_INTEGERS: Final = 2**53


def point_id(tenant: str, id: str) -> UUID:
    """The number under which a store keeps a point: of a hash, so that any text is an id."""
    text = f"{len(tenant)}:{tenant}{id}".encode("utf-8", "surrogatepass")
    return UUID(bytes=hashlib.blake2b(text, digest_size=16).digest())


def check_collection(collection: str) -> None:
    if not _COLLECTION.fullmatch(collection):
        raise InvalidRequest("collection: not a name of [a-z][a-z0-9_-]{0,62}", field="collection")


def check_schema(collection: str, schema: Schema) -> None:
    check_collection(collection)
    if not 1 <= schema.dimension <= LONGEST_DIMENSION:
        raise InvalidRequest(f"dimension: {schema.dimension} is not from 1 to {LONGEST_DIMENSION}", field="dimension")
    check_text("model", schema.model)
    for name in schema.fields:
        _check_field(name)


def check_same(collection: str, expected: Schema, actual: Schema) -> None:
    """Refuse, by name, a collection that was made for something else. `expected` is what it was made for."""
    for name, was, wanted in (
        ("dimension", expected.dimension, actual.dimension),
        ("model", expected.model, actual.model),
    ):
        if was != wanted:
            raise InvalidRequest(
                f"the collection {collection} is of {name} {was}, not {wanted}",
                field=name,
                collection=collection,
                expected=was,
                actual=wanted,
            )


def check_points(dimension: int, points: Sequence[Point]) -> None:
    check_count("points", len(points))
    for point in points:
        check_text("tenant", point.tenant)
        check_text("id", point.id)
        check_dense(dimension, point.dense)
        if point.sparse is not None:
            check_sparse(point.sparse)
        _check_values(point.values)


def check_count(name: str, count: int) -> None:
    if count > POINTS_PER_CALL:
        raise InvalidRequest(
            f"{name}: {count}, and a call takes up to {POINTS_PER_CALL}",
            field=name,
            limit=POINTS_PER_CALL,
            actual=count,
        )


def check_limit(limit: int) -> None:
    if not 1 <= limit <= POINTS_PER_CALL:
        raise InvalidRequest(f"limit: {limit} is not from 1 to {POINTS_PER_CALL}", field="limit")


def check_cursor(after: str | None) -> None:
    if after is not None:
        try:
            UUID(after)
        except ValueError as error:
            raise InvalidRequest("after: not one that a page has given", field="after") from error


def check_dense(dimension: int, dense: Vector) -> None:
    if dense.shape != (dimension,):
        actual = dense.shape[0] if dense.ndim == 1 else list(dense.shape)
        raise InvalidRequest(
            f"vector: of dimension {actual}, and the collection's is {dimension}",
            field="vector",
            expected=dimension,
            actual=actual,
        )
    # The sum of the squares is what the cosine divides by, and overflows before the numbers themselves do.
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.asarray(dense, np.float32)
        squares = np.dot(single, single)
    if not math.isfinite(squares):
        raise InvalidRequest("vector: not of finite numbers, or too large", field="vector")


def check_sparse(sparse: Sparse) -> None:
    indices, count = sparse.indices, len(sparse.indices)
    if count != len(sparse.values):
        raise InvalidRequest(f"sparse: {count} indices and {len(sparse.values)} values", field="sparse")
    if count > TERMS_PER_POINT:
        raise InvalidRequest(f"sparse: {count} terms, and {TERMS_PER_POINT} are the most", field="sparse")
    if not all(0 <= index < _TERMS for index in indices) or len(set(indices)) != count:
        raise InvalidRequest("sparse: an index that comes twice, or is not of 32 bits", field="sparse")
    if not np.isfinite(np.asarray(sparse.values, np.float32)).all():
        raise InvalidRequest("sparse: not of finite numbers", field="sparse")


def check_filter(where: Filter) -> None:
    check_text("tenant", where.tenant)
    if len(where.conditions) > CONDITIONS_PER_FILTER:
        raise InvalidRequest(f"filter: more than {CONDITIONS_PER_FILTER} conditions", field="filter")
    for condition in where.conditions:
        _check_field(condition.field)
        _check_condition(condition)


def check_names(names: Sequence[str] | None) -> None:
    for name in names or ():
        _check_field(name)


def check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{name}: not Unicode text", field=name) from error


def _check_condition(condition: Condition) -> None:
    match condition:
        case Equal(name, value):
            if isinstance(value, bool):
                raise InvalidRequest(f"{name}: neither text nor an integer", field=name)
            _check_match(name, [value])
        case OneOf(name, values):
            if not values or len(values) > ALTERNATIVES_PER_CONDITION:
                raise InvalidRequest(f"{name}: not from 1 to {ALTERNATIVES_PER_CONDITION} values", field=name)
            if len({type(value) for value in values}) > 1 or isinstance(values[0], bool):
                raise InvalidRequest(f"{name}: neither all text nor all integers", field=name)
            _check_match(name, values)
        case Between():
            bounds = [condition.at_least, condition.above, condition.at_most, condition.below]
            given = [bound for bound in bounds if bound is not None]
            if not given or not all(math.isfinite(bound) for bound in given):
                raise InvalidRequest(
                    f"{condition.field}: bounds are finite numbers, at least one", field=condition.field
                )
            if any(isinstance(bound, int) and abs(bound) > _EXACT_INTEGERS for bound in given):
                raise InvalidRequest(f"{condition.field}: a bound over 2**53", field=condition.field)


def _check_match(name: str, values: Iterable[str | int]) -> None:
    for value in values:
        if isinstance(value, str):
            check_text(name, value)
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
