"""The rules of recall: pure functions."""
