"""The Hivemem worker that keeps files."""
