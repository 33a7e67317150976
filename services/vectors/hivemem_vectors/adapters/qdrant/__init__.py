"""Vectors on a Qdrant server, over gRPC."""

from hivemem_vectors.adapters.qdrant.collections import Quantization
from hivemem_vectors.adapters.qdrant.store import QdrantVectors

__all__ = ["QdrantVectors", "Quantization"]
