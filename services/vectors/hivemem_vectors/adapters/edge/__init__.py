"""Vectors in files of this machine, by Qdrant's engine in a process of its own."""

from hivemem_vectors.adapters.edge.store import EdgeVectors

__all__ = ["EdgeVectors"]
