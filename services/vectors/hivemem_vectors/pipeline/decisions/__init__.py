"""The rules of the pipeline: pure functions."""
