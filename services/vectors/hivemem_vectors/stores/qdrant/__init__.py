"""Vectors on a Qdrant server, over gRPC."""
