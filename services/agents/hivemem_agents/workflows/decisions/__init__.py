"""The rules of workflows, as pure functions."""
