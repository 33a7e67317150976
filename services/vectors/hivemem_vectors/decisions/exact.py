"""Exact nearest neighbours by comparing with everything: for the mirror, when there is no index, and as the measure of
what an index finds."""

import numpy as np

from hivemem_vectors.ports import Embeddings, Vector


def unit_rows(rows: Embeddings) -> Embeddings:
    """Each row with length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32, copy=False)


def cosines(question: Vector, unit: Embeddings) -> Vector:
    """How near each row, of length 1, points to the question, from -1 to 1."""
    length = float(np.linalg.norm(question))
    return unit @ (question / (length or 1.0)).astype(np.float32, copy=False)


def nearest(scores: Vector, top_k: int) -> list[int]:
    """Where the best scores stand, best first; of equals the earlier one."""
    if top_k < 1:
        return []
    if len(scores) <= top_k:
        return [int(at) for at in np.argsort(-scores, kind="stable")]
    least = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
    candidates = np.flatnonzero(scores >= least)
    order = np.argsort(-scores[candidates], kind="stable")[:top_k]
    return [int(at) for at in candidates[order]]
