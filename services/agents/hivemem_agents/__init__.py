"""The agents worker."""
