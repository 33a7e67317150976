"""The Hivemem worker for artifacts: files of a session, in versions."""
