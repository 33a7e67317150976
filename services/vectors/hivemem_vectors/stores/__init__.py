"""Vector stores: their port, the guard and the check in front of any of them, and the adapters."""
