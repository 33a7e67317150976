"""The operations on users' own vectors, and their way into the index."""
