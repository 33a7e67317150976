"""The Hivemem worker that finds again what was written."""
