"""Embedders: their port, the wrappers around any of them, and the adapters."""
