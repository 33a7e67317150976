"""all-MiniLM-L6-v2 with weights of 8 bits, from a package."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, NamedTuple

import numpy as np

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.embedders.offline.model import Hidden, TokenBatch, WordPieces, open_session, packaged_model
from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows, numbered
from hivemem_vectors.embedders.threads import ModelThreads

MODEL: Final = "all-MiniLM-L6-v2-onnx-int8"
DIMENSION: Final = 384
TEXTS_PER_RUN: Final = 8
"""More at once is no faster, and takes the more memory."""

_LOADING_RETRY_MS: Final = 30_000


class _Loaded(NamedTuple):
    pieces: WordPieces
    run: Callable[[TokenBatch], Hidden]


class OfflineEmbedder:
    """Loads the model on its first use, or on `load`. It runs in `threads` threads beside the event loop, and one more
    for single texts."""

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = ModelThreads(threads)
        self._loading = Lock()
        self._loaded: _Loaded | None = None

    @property
    def model(self) -> str:
        return MODEL

    @property
    def dimension(self) -> int:
        return DIMENSION

    async def load(self) -> None:
        """Load the model now, so that the first call need not wait for it."""
        await self._threads.run(self._load)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        if not texts:
            return np.empty((0, DIMENSION), np.float32)
        if len(texts) == 1:
            # Most often a question, or what somebody has just written and will ask for.
            return await self._threads.run_soon(self._embed, texts)
        starts = range(0, len(texts), TEXTS_PER_RUN)
        return np.concatenate([await self._run(texts[at : at + TEXTS_PER_RUN], at) for at in starts])

    async def close(self) -> None:
        await self._threads.close()
        self._loaded = None

    async def _run(self, texts: Sequence[str], start: int) -> Embeddings:
        with numbered(range(start, start + len(texts))):
            return await self._threads.run(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        loaded = self._load()
        batch = loaded.pieces.batch(texts)
        rows = _pooled(loaded.run(batch), batch)
        return checked_rows(rows, texts=len(texts), model=MODEL, dimension=DIMENSION)

    def _load(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = _open()
            return self._loaded


def _open() -> _Loaded:
    try:
        return _Loaded(WordPieces(), open_session(packaged_model(), threads=1))
    except Exception as error:
        raise Unavailable(
            f"{MODEL} cannot be loaded, which needs hivemem-vectors[offline]: {error}",
            retry_after_ms=_LOADING_RETRY_MS,
        ) from error


def _pooled(hidden: Hidden, batch: TokenBatch) -> Embeddings:
    """Return the mean over the pieces of text, with length 1."""
    mask = batch.mask[..., None].astype(np.float32)
    means: Embeddings = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    unit: Embeddings = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
