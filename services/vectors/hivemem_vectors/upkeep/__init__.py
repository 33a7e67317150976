"""Upkeep of the index: status, sweeps, retries, lost collections and confirmed erasures."""
