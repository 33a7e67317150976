"""What travels on the bus of a Hivemem fleet: models, subjects, error codes, and the registry of operations."""
