"""Exact search in mirrors: by their words, and by cosine where they have embeddings of the question's model."""

from collections.abc import Mapping

import numpy as np

from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.keywords import NO_WORDS, Idf, SparseEmbedding, document, keyword_scores
from hivemem_vectors.pipeline.entities import Mirror, unpacked
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import Piece, dense_score, keyword_shares
from hivemem_vectors.stores.ports import Vector


def unit_rows(rows: Embeddings) -> Embeddings:
    """Return each row with length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32, copy=False)


def cosines(question: Vector, unit: Embeddings) -> Vector:
    """Return the cosine of each row, which has length 1, with the question."""
    length = float(np.linalg.norm(question))
    return unit @ (question / (length or 1.0)).astype(np.float32, copy=False)


def nearest(scores: Vector, top_k: int) -> list[int]:
    """Return the positions of the best scores, best first; of equal ones the earlier."""
    if top_k < 1:
        return []
    if len(scores) <= top_k:
        return [int(at) for at in np.argsort(-scores, kind="stable")]
    least = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
    candidates = np.flatnonzero(scores >= least)
    order = np.argsort(-scores[candidates], kind="stable")[:top_k]
    return [int(at) for at in candidates[order]]


class MirrorScan:
    """Scores the chunks of mirrors, a batch at a time. The rarity of a word follows from the chunks that were added."""

    def __init__(self, question: Question, vector: Vector | None, model: str) -> None:
        self._question = question
        self._asked = frozenset(question.words.indices)
        self._vector = vector
        self._model = model
        self._pieces: list[Piece] = []
        self._documents: list[SparseEmbedding] = []
        self.chunks = 0

    def add(self, mirrors: Mapping[str, Mirror]) -> None:
        """Add mirrors by their places, if they pass the filters. This takes long, and belongs in a thread."""
        for place, mirror in mirrors.items():
            if mirror.version is not None and self._question.holds(mirror.fields):
                self._add(place, mirror.version, mirror)

    def _add(self, place: str, version: int, mirror: Mirror) -> None:
        dense = self._dense(mirror)
        updated_at, importance = mirror.fields["updated_at"], mirror.fields.get("importance")
        for chunk, (text, start) in enumerate(zip(mirror.texts, mirror.starts, strict=True)):
            near = dense_score(dense[chunk])
            self._pieces.append(
                Piece(place, version, chunk, start, len(text), near, 0.0, updated_at, importance, is_mirrored=True)
            )
            self._documents.append(self._shared(text) if self._asked else NO_WORDS)
        self.chunks += len(mirror.texts)

    def _dense(self, mirror: Mirror) -> list[float]:
        """Return the cosine of each chunk; 0 if it is unknown."""
        chunks = len(mirror.texts)
        if self._vector is None or mirror.embeddings is None or mirror.model != self._model or not chunks:
            return [0.0] * chunks
        near: list[float] = cosines(self._vector, unit_rows(unpacked(mirror.embeddings, chunks))).tolist()
        return near

    def _shared(self, text: str) -> SparseEmbedding:
        """Return the words that a chunk shares with the question."""
        all_words = document(text)
        shared = [pair for pair in zip(*all_words, strict=True) if pair[0] in self._asked]
        return SparseEmbedding(tuple([index for index, _ in shared]), tuple([weight for _, weight in shared]))

    def pieces(self) -> list[Piece]:
        """Return all pieces that either side finds."""
        scores = keyword_scores(self._question.words, self._documents, Idf(self._documents))
        by_number = {str(number): score for number, score in enumerate(scores) if score > 0}
        shares = keyword_shares(by_number, words=len(self._question.words.indices), documents=len(self._documents))
        found = [piece._replace(keyword=shares.get(str(number), 0.0)) for number, piece in enumerate(self._pieces)]
        return [piece for piece in found if piece.dense > 0 or piece.keyword > 0]
