"""Search by meaning and by words at once, over any store."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, NamedTuple

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.stores.ports import POINTS_PER_CALL, ByWords, Filter, Nearest, Sparse, Value, Vector, VectorStore

SCORED_FACTOR: Final = 5
"""How many times more points than wanted get a score by words. Points further down have hardly any."""
FEWEST_SCORED: Final = 200
RETRY_AFTER_MS: Final = 1_000


class HybridHit(NamedTuple):
    """A point with its score on each side that was searched; None for the other side.

    `dense` is the cosine. `sparse` is the score of `VectorStore.by_words`: 0.0 for a point that shares no term, or is
    far down by its words.
    """

    id: str
    dense: float | None
    sparse: float | None
    values: Mapping[str, Value]


async def hybrid_search(
    store: VectorStore,
    collection: str,
    where: Filter,
    dense: Awaitable[Vector | None],
    sparse: Sparse | None,
    *,
    limit: int,
    values: Sequence[str] | None = None,
) -> list[HybridHit]:
    """Return the best `limit` points of each side, so at most twice as many: the nearest first.

    The words are searched while `dense` is still under way, so that one more call is left when it arrives. If it turns
    out to be None, the words alone are searched. A store that cannot search by words searches by meaning alone, and is
    `Unavailable` for a search by words alone.
    """
    if sparse is None or not store.words.able:
        vector = await dense
        if vector is None and sparse is not None:
            raise Unavailable(f"the store cannot search by words: {store.words.reason}", retry_after_ms=RETRY_AFTER_MS)
        if vector is None:
            return []
        near = await store.nearest(collection, Nearest(where, vector, limit, values=values))
        return [HybridHit(hit.id, hit.score, None, hit.values) for hit in near]
    scored = min(max(limit * SCORED_FACTOR, FEWEST_SCORED), POINTS_PER_CALL)
    by_words = await store.by_words(collection, ByWords(where, sparse, scored, keys_only=True))
    vector = await dense
    if vector is None:
        found = await store.by_words(collection, ByWords(where, sparse, limit, values))
        return [HybridHit(hit.id, None, hit.score, hit.values) for hit in found]
    best = [hit.key for hit in by_words[:limit]]
    scores = {hit.key: hit.score for hit in by_words}
    near = await store.nearest(collection, Nearest(where, vector, limit, best, values))
    once = {hit.key: hit for hit in near}
    return [HybridHit(hit.id, hit.score, scores.get(key, 0.0), hit.values) for key, hit in once.items()]
