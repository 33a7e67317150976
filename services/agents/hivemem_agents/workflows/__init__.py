"""Workflows: definitions, runs and their steps."""
