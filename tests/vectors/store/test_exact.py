"""A search finds the same points as a comparison with every point, for any points and queries."""

import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hivemem_vectors.stores.ports import Between, Condition, Equal, Filter, OneOf, Point, Value, VectorStore

from .points import DIMENSION, SCHEMA, TOLERANCE, Words, by_words, cosine, lets_pass, search

TENANTS = ("acme", "other")
NUMBERS = st.integers(-4, 4)
VECTORS = st.lists(st.integers(-3, 3), min_size=DIMENSION, max_size=DIMENSION).map(
    lambda numbers: np.asarray(numbers, np.float32)
)
WORDS = st.dictionaries(st.integers(0, 12), st.integers(1, 3), max_size=4).map(
    lambda terms: Words(sorted(terms), [float(terms[index]) for index in sorted(terms)])
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "place": st.sampled_from("abc"),
        "prefixes": st.lists(st.sampled_from(["a", "a/b", "c"]), max_size=2, unique=True),
        "version": NUMBERS,
        "importance": NUMBERS.map(lambda number: number / 4),
    },
)
CONDITIONS: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Equal, st.sampled_from(["place", "prefixes"]), st.sampled_from(["a", "a/b", "b", "c"])),
    st.builds(Equal, st.just("version"), NUMBERS),
    st.builds(OneOf, st.just("place"), st.lists(st.sampled_from("abc"), min_size=1, max_size=2)),
    st.builds(Between, st.just("version"), at_least=NUMBERS, or_missing=st.booleans()),
    st.builds(Between, st.just("importance"), above=NUMBERS, at_most=NUMBERS, or_missing=st.booleans()),
)
Stored = tuple[str, np.ndarray, Words, dict[str, Value]]
STORED = st.lists(st.tuples(st.sampled_from(TENANTS), VECTORS, WORDS, VALUES), max_size=30)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stored=STORED, query=VECTORS, words=WORDS, conditions=st.lists(CONDITIONS, max_size=3))
async def test_a_search_equals_comparing_with_every_point(
    store: VectorStore,
    stored: list[Stored],
    query: np.ndarray,
    words: Words,
    conditions: list[Condition],
) -> None:
    points = [
        Point(tenant, f"p{number}", dense, sparse, values)
        for number, (tenant, dense, sparse, values) in enumerate(stored)
    ]
    collection = f"test-{uuid.uuid4().hex}"
    await store.ensure_collection(collection, SCHEMA)
    await store.upsert(collection, points)
    where = Filter("acme", conditions)
    passing = {point.id: point for point in points if lets_pass(where, point)}
    all_scores = by_words(words, [point for point in points if point.sparse and point.sparse.indices])
    scores = {id: score for id, score in all_scores.items() if id in passing}
    hits = await search(store, collection, where, dense=query, sparse=words, limit=len(points) + 1)
    few = await search(store, collection, where, dense=query, sparse=words, limit=2)
    best = await store.best_by_word(collection, where, words.indices)
    assert await store.count(collection, where) == len(passing)
    await store.drop_collection(collection)

    assert {hit.id for hit in hits} == set(passing)
    cosines = {id: cosine(query, point.dense) for id, point in passing.items()}
    for hit in (*hits, *few):
        assert hit.dense == pytest.approx(cosines[hit.id], abs=TOLERANCE)
        assert hit.sparse == pytest.approx(scores.get(hit.id, 0.0), abs=TOLERANCE)
        assert {name: hit.values[name] for name in hit.values} == dict(passing[hit.id].values)
    found = [cosines[hit.id] for hit in hits]
    assert found == pytest.approx(sorted(found, reverse=True), abs=TOLERANCE)
    check_best([hit.dense for hit in few], cosines, set(cosines))
    check_best([hit.sparse for hit in few], scores, set(scores))
    worded = [point for point in points if point.sparse and point.sparse.indices]
    for term, score in zip(words.indices, best, strict=True):
        alone = by_words(Words([term], [1.0]), worded)
        assert score == pytest.approx(max([alone[id] for id in passing if id in alone], default=0.0), abs=TOLERANCE)


def check_best(found: list[float | None], scores: dict[str, float], among: set[str]) -> None:
    """Check that the two best scores of a side are among the hits."""
    for best in sorted((scores[id] for id in among), reverse=True)[:2]:
        assert any(one == pytest.approx(best, abs=TOLERANCE) for one in found)
