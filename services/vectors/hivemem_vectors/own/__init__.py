"""Vectors that users store themselves."""
