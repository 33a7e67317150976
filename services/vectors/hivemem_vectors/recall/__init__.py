"""Recall: finding memories and events by meaning and by words."""
