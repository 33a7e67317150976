"""The way of memories and events into the index and out of it."""
