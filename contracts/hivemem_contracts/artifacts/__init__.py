"""The artifacts service: files of a session, versioned, of any size, and workspaces."""
