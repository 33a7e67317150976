"""The index, for a synchronous client."""

from hivemem.sync.blocking import iterating
from hivemem.sync.services import BlockingVectorsOperations
from hivemem.vectors import Vectors


class BlockingVectors(BlockingVectorsOperations):
    """Vectors: memories found by meaning, and an index of one's own."""

    sweep_all = iterating(Vectors.sweep_all)
