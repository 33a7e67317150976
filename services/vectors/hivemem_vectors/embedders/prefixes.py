"""Prefixes, by which a model tells questions from the passages that answer them."""

from collections.abc import Sequence

from hivemem_vectors.embedders.ports import Embedder, Embeddings


class PrefixedEmbedder:
    """Puts a prefix before each text."""

    def __init__(self, embedder: Embedder, prefix: str, model: str) -> None:
        self._embedder, self._prefix = embedder, prefix
        self.model, self.dimension = model, embedder.dimension

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        return await self._embedder.embed([self._prefix + text for text in texts])

    async def close(self) -> None:
        await self._embedder.close()


def by_role(embedder: Embedder, *, query_prefix: str, passage_prefix: str) -> tuple[Embedder, Embedder]:
    """Return the embedder of questions, and the embedder of passages.

    The name of both starts with the passages' prefix: with another one, the same model gives embeddings that cannot be
    compared.
    """
    model = passage_prefix + embedder.model
    return PrefixedEmbedder(embedder, query_prefix, model), PrefixedEmbedder(embedder, passage_prefix, model)
