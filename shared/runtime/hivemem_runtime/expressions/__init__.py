"""Expressions that callers write: CEL, evaluated within a budget of steps and bytes."""
