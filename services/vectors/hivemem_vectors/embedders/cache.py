"""Embeddings of texts that were embedded before."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hivemem_vectors.embedders.ports import Embedder, EmbedderWrapper, Embeddings, numbered

CACHE_BYTES: Final = 32 * 1024 * 1024

_ENTRY_BYTES: Final = 256
"""What an entry costs besides its numbers: the key, the array's head, the place in the table."""


def content_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class RecentEmbeddings:
    """A cache of the most recently used embeddings, by the hash of their text, bounded in bytes."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        row = self._kept.get(key)
        if row is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return row

    def put(self, key: bytes, row: NDArray[np.float32]) -> None:
        """A copy is kept: a row of a large batch would keep all of that alive."""
        size = row.nbytes + _ENTRY_BYTES
        if size > self._limit:
            return
        if (old := self._kept.pop(key, None)) is not None:
            self.bytes -= old.nbytes + _ENTRY_BYTES
        kept = row.copy()
        kept.flags.writeable = False
        self._kept[key] = kept
        self.bytes += size
        while self.bytes > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.nbytes + _ENTRY_BYTES


class CachedEmbedder(EmbedderWrapper):
    """Calls the embedder only for texts that are not in the cache, and once for equal texts of a call."""

    def __init__(self, embedder: Embedder, cache: RecentEmbeddings) -> None:
        super().__init__(embedder)
        self._cache = cache

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        keys = [content_hash(text) for text in texts]
        found: dict[bytes, NDArray[np.float32]] = {}
        missing: dict[bytes, int] = {}
        for at, key in enumerate(keys):
            if key in found or key in missing:
                continue
            if (row := self._cache.get(key)) is not None:
                found[key] = row
            else:
                missing[key] = at
        if missing:
            places = list(missing.values())
            with numbered(places):
                rows = await self._embedder.embed([texts[at] for at in places])
            for key, row in zip(missing, rows, strict=True):
                self._cache.put(key, row)
                found[key] = row
        if not keys:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([found[key] for key in keys])
