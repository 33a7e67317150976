"""Every worker in one process, with its own nats-server."""
