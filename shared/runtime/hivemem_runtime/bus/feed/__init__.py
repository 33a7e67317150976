"""The feed: announcing commits, mending what the stream lost, reading it."""
