"""Hivemem next to the session services of google-adk: the same events, the same disk, in one run, by turns."""
