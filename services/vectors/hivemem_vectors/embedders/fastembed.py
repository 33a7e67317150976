"""Models of the hub that fastembed knows; no other module uses that package."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows
from hivemem_vectors.embedders.threads import ThreadedModel

TEXTS_PER_RUN: Final = 16

_EmbedTexts = Callable[[Sequence[str]], Iterable[Any]]


class FastembedEmbedder(ThreadedModel[_EmbedTexts]):
    """Loads the model from the hub, which keeps it in `cache`, on its first use or on `load`. It runs in a thread
    beside the event loop, and single texts in another one."""

    def __init__(self, model: str, dimension: int, *, cache: Path, threads: int = 1) -> None:
        needs = f"{model} cannot be loaded, which needs hivemem-vectors[fastembed] and the hub"
        super().__init__(lambda: _open(model, cache, threads), needs, threads=1)
        self.model, self.dimension = model, dimension

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        run = self.run_soon if len(texts) == 1 else self.run
        return await run(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        rows = np.stack([np.asarray(row, np.float32) for row in self.opened()(texts)])
        return checked_rows(rows, texts=len(texts), model=self.model, dimension=self.dimension)


def _open(model: str, cache: Path, threads: int) -> _EmbedTexts:
    from fastembed import TextEmbedding

    opened = TextEmbedding(model, cache_dir=str(cache), threads=threads, providers=["CPUExecutionProvider"])
    return lambda texts: opened.embed(list(texts), batch_size=TEXTS_PER_RUN)
