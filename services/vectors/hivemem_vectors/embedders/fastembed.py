"""Embedding models of the hub, by fastembed."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows
from hivemem_vectors.embedders.threads import ThreadedModel

TEXTS_PER_RUN: Final = 16

_EmbedTexts = Callable[[Sequence[str]], Iterable[Any]]


class FastembedEmbedder(ThreadedModel[_EmbedTexts]):
    """Loads the model on its first use or on `load`: from `folder`, or else from the hub into `cache`. It runs in a
    thread beside the event loop, and single texts in another one."""

    def __init__(
        self,
        model: str,
        dimension: int,
        *,
        cache: Path,
        folder: Path | None = None,
        file: str | None = None,
        threads: int = 1,
    ) -> None:
        """Set up the threads. `file` is the model's file in its repository, for a model that fastembed does not list:
        its embeddings are means of length 1."""

        def load() -> _EmbedTexts:
            if file is not None:
                _list_model(model, dimension, file)
            return _open(model, cache, folder, threads)

        super().__init__(load, needs_of(model, folder), threads=1)
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


def needs_of(model: str, folder: Path | None) -> str:
    """Return what an error says about a model that cannot be loaded."""
    return f"{model} cannot be loaded, which needs hivemem-vectors[fastembed] and {folder or 'the hub'}"


def _list_model(model: str, dimension: int, file: str) -> None:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if model not in [listed["model"] for listed in TextEmbedding.list_supported_models()]:
        TextEmbedding.add_custom_model(
            model, PoolingType.MEAN, normalization=True, sources=ModelSource(hf=model), dim=dimension, model_file=file
        )


def _open(model: str, cache: Path, folder: Path | None, threads: int) -> _EmbedTexts:
    from fastembed import TextEmbedding

    opened = TextEmbedding(
        model,
        cache_dir=str(cache),
        specific_model_path=None if folder is None else str(folder),
        threads=threads,
        providers=["CPUExecutionProvider"],
    )
    return lambda texts: opened.embed(list(texts), batch_size=TEXTS_PER_RUN)
