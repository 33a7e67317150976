"""What the words of questions are worth to a tenant: the best score that each of them gives to any text."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from hivemem_runtime.bounded import BoundedDict
from hivemem_vectors.pipeline.decisions.keywords import AskedWord
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Filter

WORDS_KEPT: Final = 200_000
FRESH_SECONDS: Final = 60.0
"""How long an answer is reused. A worth changes with the logarithm of the number of texts."""


class WordWorths:
    """Asks the store, and remembers its answers for a while. `collection` holds the points of all items."""

    def __init__(self, store: GuardedStore, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._known = BoundedDict[tuple[str, int], tuple[float, float]](WORDS_KEPT)
        """By tenant and form: until when it is fresh, and the best score."""

    async def worths(self, tenant: str, asked: Sequence[AskedWord]) -> Mapping[int, float]:
        """Return the best score of each form of these words."""
        if not self._store.words.able:
            return {}
        now = asyncio.get_running_loop().time()
        forms = [form for word in asked for form in word.forms]
        found = {form: known[1] for form in forms if (known := self._known.get((tenant, form))) and known[0] > now}
        unknown = [form for form in forms if form not in found]
        if unknown:
            scores = await self._store.best_by_word(self._collection, Filter(tenant), unknown)
            for form, score in zip(unknown, scores, strict=True):
                found[form] = score
                self._known[tenant, form] = now + FRESH_SECONDS, score
        return found
