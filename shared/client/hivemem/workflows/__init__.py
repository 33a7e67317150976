"""Workflows: classes whose methods are steps, and the processes that run them."""
