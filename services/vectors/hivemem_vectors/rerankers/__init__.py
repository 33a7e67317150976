"""Rerankers: their port, the guard around any of them, and the adapters."""
