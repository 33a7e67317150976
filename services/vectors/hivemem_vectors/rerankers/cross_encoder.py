"""Reranking models of the hub, by fastembed."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.embedders.fastembed import needs_of
from hivemem_vectors.embedders.threads import ThreadedModel

DEFAULT_MODEL: Final = "Xenova/ms-marco-MiniLM-L-6-v2"
TEXTS_PER_RUN: Final = 8
"""A question that is given up ends after the run that it is in."""

_RETRY_MS: Final = 1_000

_Logits = Callable[[str, Sequence[str]], Iterable[float]]


class CrossEncoder(ThreadedModel[_Logits]):
    """Loads the model on its first use or on `load`: from `folder`, or else from the hub into `cache`. It runs in a
    thread beside the event loop."""

    def __init__(self, model: str, *, cache: Path, folder: Path | None = None, threads: int = 1) -> None:
        super().__init__(lambda: _open(model, cache, folder, threads), needs_of(model, folder), threads=1)
        self._model = model

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        found: list[float] = []
        for start in range(0, len(texts), TEXTS_PER_RUN):
            found += await self.run_soon(self._scores, query, texts[start : start + TEXTS_PER_RUN])
        return found

    def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        logits = np.fromiter(self.opened()(query, texts), np.float64)
        if not np.isfinite(logits).all():
            raise Unavailable(f"{self._model} answered with numbers that are not finite", retry_after_ms=_RETRY_MS)
        sigmoid: list[float] = ((1 + np.tanh(logits / 2)) / 2).tolist()  # which never overflows
        return sigmoid


def _open(model: str, cache: Path, folder: Path | None, threads: int) -> _Logits:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    return TextCrossEncoder(
        model,
        cache_dir=str(cache),
        specific_model_path=None if folder is None else str(folder),
        threads=threads,
        providers=["CPUExecutionProvider"],
    ).rerank
