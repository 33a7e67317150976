"""The timers of upkeep."""
