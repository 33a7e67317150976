"""The operations of the vectors service, each bound to what does it."""
