"""What turns text into embeddings: one room or file an embedder, and what any of them can be wrapped in."""
