"""The port of rerankers, and the guard around any of them."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.circuit_breaker import CircuitBreaker

TEXTS_PER_QUESTION: Final = 50
CHARACTERS_PER_TEXT: Final = 2_000
"""The most characters of a question, and of each text, that are read."""

LONGEST_SECONDS: Final = 2.0
RETRY_AFTER_MS: Final = 1_000


class Reranker(Protocol):
    """Reads a question and a text together, which is slower and more exact than a comparison of their embeddings.

    A call returns all scores or none, and never blocks the event loop. It raises `Unavailable` if the model or its
    endpoint is down, overloaded or set up wrongly, and `InvalidRequest` for texts that the endpoint refuses.
    """

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return for each text, in order, how well it answers the question: from 0 to 1."""
        ...

    async def close(self) -> None:
        """Release the model or the connections; later calls are `Unavailable`. A second call does nothing."""
        ...


class GuardedReranker:
    """Limits the time and the texts of a call, and leaves a reranker that keeps failing alone for a while."""

    def __init__(self, reranker: Reranker, breaker: CircuitBreaker) -> None:
        self._reranker = reranker
        self._breaker = breaker

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        assert len(texts) <= TEXTS_PER_QUESTION
        read = [text[:CHARACTERS_PER_TEXT] for text in texts]
        with self._breaker.guard():
            try:
                async with asyncio.timeout(LONGEST_SECONDS):
                    return await self._reranker.scores(query[:CHARACTERS_PER_TEXT], read)
            except TimeoutError as error:
                raise Unavailable("the reranker takes too long", retry_after_ms=RETRY_AFTER_MS) from error

    async def close(self) -> None:
        await self._reranker.close()
