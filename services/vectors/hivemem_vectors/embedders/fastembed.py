"""Models of the hub that fastembed knows; no other module uses that package."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows
from hivemem_vectors.embedders.threads import ModelThreads

TEXTS_PER_RUN: Final = 16
_LOADING_RETRY_MS: Final = 30_000

_EmbedTexts = Callable[[Sequence[str]], Iterable[Any]]


class FastembedEmbedder:
    """Loads the model from the hub, which keeps it in `cache`, on its first use or on `load`. It runs in a thread
    beside the event loop, and single texts in another one."""

    def __init__(self, model: str, dimension: int, *, cache: Path, threads: int = 1) -> None:
        self._model, self._dimension = model, dimension
        self._cache, self._model_threads = cache, threads
        self._threads = ModelThreads(1)
        self._loading = Lock()
        self._loaded: _EmbedTexts | None = None

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def load(self) -> None:
        """Load the model now, so that the first call need not wait for it."""
        await self._threads.run(self._load)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        run = self._threads.run_soon if len(texts) == 1 else self._threads.run
        return await run(self._embed, list(texts))

    async def close(self) -> None:
        await self._threads.close()
        self._loaded = None

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        rows = np.stack([np.asarray(row, np.float32) for row in self._load()(texts)])
        return checked_rows(rows, texts=len(texts), model=self._model, dimension=self._dimension)

    def _load(self) -> _EmbedTexts:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._open()
            return self._loaded

    def _open(self) -> _EmbedTexts:
        try:
            from fastembed import TextEmbedding

            opened = TextEmbedding(
                self._model,
                cache_dir=str(self._cache),
                threads=self._model_threads,
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # of many kinds: the hub, the files, the runtime
            raise Unavailable(
                f"{self._model} cannot be loaded, which needs hivemem-vectors[fastembed] and the hub: {error}",
                retry_after_ms=_LOADING_RETRY_MS,
            ) from error
        return lambda texts: opened.embed(list(texts), batch_size=TEXTS_PER_RUN)
