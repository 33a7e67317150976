"""The mirror of the index: of each item all that its points are made of, so that the index can be made again without a
model, and searched here where it cannot be reached. Its id is the item's."""

import base64
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from hivemem_runtime.ledger.entity import record_entity
from hivemem_vectors.ports import Embeddings


@dataclass(frozen=True, slots=True)
class Mirror:
    """Head and record alike. `fields` are what filters and scores look at (see `decisions.points`), `texts` the chunks
    and `starts` where each begins in the item's text. `embeddings` has a packed row for each of them, made by `model`;
    none while the embedder could not be had. `value` is that of an event; a memory's own is asked for where it lives.

    Without a version there is nothing: the item is gone.
    """

    version: int | None = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    texts: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    model: str | None = None
    embeddings: str | None = None
    value: Any = None


def packed(rows: Embeddings) -> str:
    """As halves: a cosine changes in its fourth digit."""
    return base64.b64encode(rows.astype("<f2").tobytes()).decode("ascii")


def unpacked(embeddings: str, rows: int) -> Embeddings:
    return np.frombuffer(base64.b64decode(embeddings), "<f2").reshape(rows, -1).astype(np.float32)


MIRROR: Final = record_entity("mirror", Mirror, history=False)
