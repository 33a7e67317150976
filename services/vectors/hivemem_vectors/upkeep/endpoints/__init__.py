"""The operations of upkeep."""
