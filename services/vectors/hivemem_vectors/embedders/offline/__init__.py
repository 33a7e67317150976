"""An embedder that needs no network: a model and its vocabulary, both from packages."""
