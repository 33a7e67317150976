"""The operations of each service as methods."""
