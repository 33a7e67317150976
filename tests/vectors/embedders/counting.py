"""An embedder that a test scripts, and a clock that a test sets."""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from hivemem_vectors.embedders.ports import Embeddings


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ScriptedEmbedder:
    """Embeds a text as its length and its first character, and records its calls."""

    model = "scripted"
    dimension = 2

    def __init__(self, meanwhile: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        self.asked: list[list[str]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.closed = False
        self._meanwhile = meanwhile

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.asked.append(list(texts))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            self._meanwhile(texts)
        finally:
            self.at_once -= 1
        return expected(texts)

    async def close(self) -> None:
        self.closed = True


def expected(texts: Sequence[str]) -> Embeddings:
    return np.array([[len(text), ord(text[0])] for text in texts], np.float32).reshape(len(texts), 2)
