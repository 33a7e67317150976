"""Reactions: batches of changes for the handlers of a worker."""
