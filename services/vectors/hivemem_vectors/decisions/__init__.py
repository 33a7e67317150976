"""The rules: pure functions, one file a topic."""
