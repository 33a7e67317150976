"""Vectors in files of this machine, by Qdrant's engine in a process of its own."""
