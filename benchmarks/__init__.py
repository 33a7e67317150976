"""Hivemem next to other libraries: the same work on the same disk, in one run, by turns."""
