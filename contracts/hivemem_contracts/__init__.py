"""What travels on the bus of a Hivemem fleet: models, subjects, error codes, and the registry of operations."""

__version__ = "0.1.0"
