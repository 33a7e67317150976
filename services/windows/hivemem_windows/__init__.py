"""The windows worker."""
