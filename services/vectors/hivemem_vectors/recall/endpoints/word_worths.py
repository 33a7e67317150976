"""What the words of questions are worth to a tenant: the best score that each of them gives to any text."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hivemem_runtime.bounded import BoundedDict
from hivemem_vectors.pipeline.decisions.keywords import AskedWord
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Filter

WORDS_KEPT: Final = 200_000
FRESH_SECONDS: Final = 600.0
GROWTH: Final = 1.2
"""A worth follows the logarithm of the number of texts, so it is asked for anew when there are that many times more."""


class _Worth(NamedTuple):
    score: float
    documents: int
    until: float

    def is_fresh(self, documents: int, now: float) -> bool:
        grown = max(documents, self.documents) > GROWTH * min(documents, self.documents)
        return now < self.until and not grown


class WordWorths:
    """Asks the store, and remembers its answers for a while. `collection` holds the points of all items."""

    def __init__(self, store: GuardedStore, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._known = BoundedDict[tuple[str, int], _Worth](WORDS_KEPT)
        """By tenant and form of a word."""

    async def worths(self, tenant: str, asked: Sequence[AskedWord], documents: int) -> Mapping[int, float]:
        """Return the best score of each form of these words, among so many documents of all tenants."""
        if not self._store.words.able:
            return {}
        now = asyncio.get_running_loop().time()
        forms = [form for word in asked for form in word.forms]
        known = {form: worth for form in forms if (worth := self._known.get((tenant, form))) is not None}
        found = {form: worth.score for form, worth in known.items() if worth.is_fresh(documents, now)}
        unknown = [form for form in forms if form not in found]
        if unknown:
            scores = await self._store.best_by_word(self._collection, Filter(tenant), unknown)
            for form, score in zip(unknown, scores, strict=True):
                found[form] = score
                self._known[tenant, form] = _Worth(score, documents, now + FRESH_SECONDS)
        return found
