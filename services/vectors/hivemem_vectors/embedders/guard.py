"""An embedder behind a circuit breaker."""

from collections.abc import Sequence

from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_vectors.embedders.ports import Embedder, Embeddings


class GuardedEmbedder:
    """Leaves an embedder that keeps failing alone for a while."""

    def __init__(self, embedder: Embedder, breaker: CircuitBreaker) -> None:
        self._embedder = embedder
        self._breaker = breaker

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        with self._breaker.guard():
            return await self._embedder.embed(texts)

    async def close(self) -> None:
        await self._embedder.close()
