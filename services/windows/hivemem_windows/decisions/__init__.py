"""The rules of windows, as pure functions."""
