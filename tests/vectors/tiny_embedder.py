"""An embedder for tests of logic: each word maps to one of a few numbers. It fails on demand."""

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.ports import Embeddings

DIMENSION: Final = 16
MODEL: Final = "tiny"


class TinyEmbedder:
    """A small embedder. `embedded` has the texts of all calls, including refused ones."""

    def __init__(self, model: str = MODEL) -> None:
        self.model = model
        self.dimension = DIMENSION
        self.embedded: list[str] = []
        self.calls = 0
        self.is_down = False
        self.answers_another_dimension = False
        self.poison: str | None = None
        """A word that it refuses, with the number of its text in the error."""
        self.secret_poison: str | None = None
        """A word that it refuses without the number of its text."""
        self.not_a_number: str | None = None
        """A word whose embedding is not finite."""

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.calls += 1
        self.embedded += texts
        if self.is_down:
            raise Unavailable("the tiny embedder is down", retry_after_ms=1)
        if self.answers_another_dimension:
            raise InvalidRequest("dimension: 17", field="dimension", expected=DIMENSION, actual=17)
        for at, text in enumerate(texts):
            if self.poison is not None and self.poison in text:
                raise InvalidRequest("text: poisoned", field="text", index=at)
            if self.not_a_number is not None and self.not_a_number in text:
                raise InvalidRequest("embedding: not finite", field="embedding", index=at)
            if self.secret_poison is not None and self.secret_poison in text:
                raise InvalidRequest("text: something is wrong with it", field="text")
        return np.stack([row_of(text) for text in texts]) if texts else np.empty((0, DIMENSION), np.float32)

    async def close(self) -> None:
        """Do nothing, because nothing is open."""


def row_of(text: str) -> Embeddings:
    row = np.full(DIMENSION, 0.01, np.float32)
    for word in text.lower().split():
        row[zlib.crc32(word.encode()) % DIMENSION] += 1
    return (row / np.linalg.norm(row)).astype(np.float32)
