"""The Hivemem worker for memories, leases and the audit."""
