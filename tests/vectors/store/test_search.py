"""A hybrid search over a store that cannot search by words."""

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.stores.ports import Ability, Filter, Vector, VectorStore
from hivemem_vectors.stores.search import hybrid_search

from ..wayward import WaywardStore
from .points import TENANT, Words, point, vector

WORDS = Words([7], [1.0])


class Wordless(WaywardStore):
    @property
    def words(self) -> Ability:
        return Ability(False, "it has no statistics of terms")


async def arriving(dense: Vector | None) -> Vector | None:
    return dense


async def test_it_searches_by_meaning_alone(store: VectorStore, collection: str) -> None:
    await store.upsert(collection, [point("one", 1.0, words=WORDS)])
    wordless = Wordless(store)

    found = await hybrid_search(wordless, collection, Filter(TENANT), arriving(vector(1)), WORDS, limit=1, values=[])

    [hit] = found
    assert (hit.id, hit.sparse, hit.values) == ("one", None, {})
    assert hit.dense == pytest.approx(1.0)
    assert wordless.calls == ["nearest"]


async def test_a_search_by_words_alone_is_refused_with_the_reason(store: VectorStore, collection: str) -> None:
    with pytest.raises(Unavailable, match="it has no statistics of terms"):
        await hybrid_search(Wordless(store), collection, Filter(TENANT), arriving(None), WORDS, limit=1)
