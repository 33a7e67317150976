"""The vectors service: what was written is found again by meaning."""
