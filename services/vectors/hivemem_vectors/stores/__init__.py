"""Vector stores: their port, what stands in front of any of them, and the adapters."""
