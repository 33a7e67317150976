"""An embedder that knows a few synonyms; a test can stop it or slow it down."""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from hivemem_contracts.errors import HiveError
from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.keywords import words
from hivemem_vectors.stores.ports import Vector

DIMENSION: Final = 32
MODEL: Final = "meaning"
_MEANINGS: Final = {"automobile": "car", "vehicle": "car", "physician": "doctor", "tea": "drink", "coffee": "drink"}


def embedding_of(text: str) -> Vector:
    """Return the normalized sum of the words' vectors."""
    total = np.zeros(DIMENSION, np.float32)
    for word in words(text):
        seed = zlib.crc32(_MEANINGS.get(word, word).encode())
        total += np.random.default_rng(seed).standard_normal(DIMENSION, np.float32)
    return total / np.float32(np.linalg.norm(total) or 1)


class MeaningEmbedder:
    model = MODEL
    dimension = DIMENSION

    def __init__(self) -> None:
        self.failure: HiveError | None = None
        self.gate = asyncio.Event()
        """While it is closed, calls wait."""
        self.gate.set()
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.asked += texts
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return np.stack([embedding_of(text) for text in texts])

    async def close(self) -> None:
        pass
