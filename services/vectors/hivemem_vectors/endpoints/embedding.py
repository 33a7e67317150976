"""Embeddings for the chunks of many items at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from hivemem_contracts.errors import HiveError
from hivemem_vectors.decisions.drafting import Draft, reuse, take
from hivemem_vectors.endpoints.health import Condition
from hivemem_vectors.endpoints.together import OF_ALL, together
from hivemem_vectors.ports import Embedder

AT_ONCE: Final = 2
"""Groups of items: while one is stored, the next one is embedded."""


class Embedding:
    def __init__(self, embedder: Embedder, clock: Callable[[], float]) -> None:
        self._embedder = embedder
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.condition = Condition(clock)

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def reuse(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Give them the embeddings that the ledger has; returns those that need more."""
        for draft in drafts:
            reuse(draft, self.model, self.dimension)
        return [draft for draft in drafts if draft.missing]

    async def embed(self, drafts: Sequence[Draft]) -> None:
        """What they lack. Each has all of its embeddings then, or a failure."""
        if drafts:
            async with self._slots:
                await together(drafts, self._embed)

    async def _embed(self, drafts: Sequence[Draft]) -> None:
        texts = [draft.texts[at] for draft in drafts for at in draft.missing]
        try:
            rows = await self._embedder.embed(texts)
        except HiveError as error:
            if error.retryable or error.context.get("field") in OF_ALL:
                self.condition.failed(error)
            raise
        self.condition.well()
        start = 0
        for draft in drafts:
            end = start + len(draft.missing)
            take(draft, rows[start:end])
            start = end
