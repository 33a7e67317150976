"""Exact search in mirrors: by their words, and by cosine where they have embeddings of the question's model."""

from collections.abc import Mapping

import numpy as np

from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.keywords import TextWords, exact_scores, text_words
from hivemem_vectors.pipeline.decisions.points import traits_of
from hivemem_vectors.pipeline.entities import Mirror, unpacked
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import Piece, dense_score, hints_of, keyword_score, worth_of_words
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
        self._forms = frozenset([form for word in question.asked for form in word.forms])
        self._vector = vector
        self._model = model
        self._pieces: list[Piece] = []
        self._words: list[TextWords] = []
        self.chunks = 0

    def add(self, mirrors: Mapping[str, Mirror]) -> None:
        """Add mirrors by their places, if they pass the filters. This takes long, and belongs in a thread."""
        for place, mirror in mirrors.items():
            if mirror.version is not None and self._question.holds(place, mirror.fields):
                self._add(place, mirror.version, mirror)

    def _add(self, place: str, version: int, mirror: Mirror) -> None:
        dense = self._dense(mirror)
        updated_at, importance = mirror.fields["updated_at"], mirror.fields.get("importance")
        author = mirror.fields.get("created_by", "")
        for chunk, (text, start) in enumerate(zip(mirror.texts, mirror.starts, strict=True)):
            words = text_words(text)
            asked = {form: words.weights[form] for form in words.weights.keys() & self._forms}
            near = dense_score(dense[chunk], words.words)
            hints = hints_of(self._question, place, traits_of(text), author, updated_at)
            self._pieces.append(
                Piece(
                    place, version, chunk, start, len(text), near, 0.0, updated_at, importance, hints, is_mirrored=True
                )
            )
            self._words.append(TextWords(asked, words.words))
        self.chunks += len(mirror.texts)

    def _dense(self, mirror: Mirror) -> list[float]:
        """Return the cosine of each chunk; 0 if it is unknown."""
        chunks = len(mirror.texts)
        if self._vector is None or mirror.embeddings is None or mirror.model != self._model or not chunks:
            return [0.0] * chunks
        near: list[float] = cosines(self._vector, unit_rows(unpacked(mirror.embeddings, chunks))).tolist()
        return near

    def pieces(self) -> list[Piece]:
        """Return all pieces that either side finds."""
        asked = self._question.asked
        scores = exact_scores(asked, [words.weights for words in self._words])
        worth = worth_of_words(asked, scores.best, len(self._words))
        return [
            piece._replace(keyword=keyword_score(bm25, worth, words.words))
            for piece, bm25, words in zip(self._pieces, scores.bm25, self._words, strict=True)
            if piece.dense > 0 or bm25 > 0
        ]
