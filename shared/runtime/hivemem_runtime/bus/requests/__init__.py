"""Requests: taken as they are read, begun by turns of tenants, answered."""
