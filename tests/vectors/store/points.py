"""Points to store, and the exact results of a search by comparison with every point."""

import math
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from hivemem_vectors.stores.ports import (
    Between,
    ByWords,
    Condition,
    Equal,
    Filter,
    Point,
    Schema,
    Value,
    Vector,
    VectorStore,
)
from hivemem_vectors.stores.search import HybridHit, hybrid_search

DIMENSION: Final = 8
MODEL: Final = "test-model"
SCHEMA: Final = Schema(
    DIMENSION,
    MODEL,
    {"place": "keyword", "prefixes": "keyword", "version": "integer", "updated_at": "integer", "importance": "float"},
)
TENANT: Final = "acme"
TOLERANCE: Final = 1e-5


class Words(NamedTuple):
    indices: Sequence[int]
    values: Sequence[float]


def vector(*numbers: float, dimension: int = DIMENSION) -> Vector:
    return np.asarray([*numbers, *[0.0] * (dimension - len(numbers))], np.float32)


def random_vectors(count: int, dimension: int = DIMENSION, seed: int = 1) -> Vector:
    return np.random.default_rng(seed).standard_normal((count, dimension), np.float32)


def point(id: str, *numbers: float, tenant: str = TENANT, words: Words | None = None, **values: Value) -> Point:
    return Point(tenant, id, vector(*(numbers or (1.0,))), words, values)


def many(count: int, *, start: int = 0, tenant: str = TENANT, dimension: int = DIMENSION) -> list[Point]:
    vectors = random_vectors(count, dimension, seed=start + 1)
    return [
        Point(tenant, f"p{start + number}", row, Words([number % 50], [1.0]), {"version": start + number})
        for number, row in enumerate(vectors)
    ]


async def everything(store: VectorStore, collection: str, where: Filter | None = None, page: int = 100) -> list[str]:
    """Return the ids of all points, read page by page."""
    found: list[str] = []
    after: str | None = None
    while True:
        read = await store.scroll(collection, where, after=after, limit=page)
        assert len(read.points) <= page
        found += [stored.id for stored in read.points]
        if read.next is None:
            return found
        after = read.next


async def search(
    store: VectorStore,
    collection: str,
    where: Filter,
    *,
    dense: Vector | Coroutine[None, None, Vector | None] | None = None,
    sparse: Words | None = None,
    limit: int,
    values: Sequence[str] | None = None,
) -> list[HybridHit]:
    """Search by embedding, by words or by both; `dense` may be a pending embedding."""
    if dense is None:
        found = await store.by_words(collection, ByWords(where, sparse, limit, values)) if sparse else []
        return [HybridHit(hit.id, None, hit.score, hit.values) for hit in found]
    arriving = _at_once(dense) if isinstance(dense, np.ndarray) else dense
    return await hybrid_search(store, collection, where, arriving, sparse, limit=limit, values=values)


async def _at_once(dense: Vector) -> Vector | None:
    return dense


def lets_pass(where: Filter, point: Point) -> bool:
    return point.tenant == where.tenant and all(_holds(condition, point) for condition in where.conditions)


def _holds(condition: Condition, point: Point) -> bool:
    found = point.values.get(condition.field)
    if isinstance(condition, Between):
        return condition.or_missing if found is None else _within(condition, found)
    wanted = [condition.value] if isinstance(condition, Equal) else condition.values
    has = [found] if isinstance(found, str | int | float) else list(found or ())
    return any(one == other and type(one) is type(other) for one in has for other in wanted)


def _within(condition: Between, found: Value) -> bool:
    return isinstance(found, int | float) and (
        (condition.at_least is None or found >= condition.at_least)
        and (condition.above is None or found > condition.above)
        and (condition.at_most is None or found <= condition.at_most)
        and (condition.below is None or found < condition.below)
    )


def cosine(one: Vector, other: Vector) -> float:
    wide = one.astype(np.float64), other.astype(np.float64)
    lengths = float(np.linalg.norm(wide[0]) * np.linalg.norm(wide[1]))
    return float(np.dot(*wide)) / lengths if lengths else 0.0


def by_words(query: Words, points: Iterable[Point]) -> dict[str, float]:
    """Return the scores of all points that share a term with the query, over a whole collection."""
    terms = {
        point.id: dict(zip(point.sparse.indices, point.sparse.values, strict=True)) for point in points if point.sparse
    }
    having = Counter(index for found in terms.values() for index in found)
    return {
        id: sum(
            weight * found[index] * math.log(1 + (len(terms) - having[index] + 0.5) / (having[index] + 0.5))
            for index, weight in zip(query.indices, query.values, strict=True)
            if index in found
        )
        for id, found in terms.items()
        if set(found) & set(query.indices)
    }
