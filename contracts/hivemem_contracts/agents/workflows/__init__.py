"""Workflows: steps in order, with branches, loops, waits and compensation, which any process carries out."""
