"""Durable commands: partitions of INGEST, each with one pinned consumer at a time."""
