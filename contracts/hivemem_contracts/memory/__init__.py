"""The memory service: versioned memories in namespaces, with history, leases and an audit."""
