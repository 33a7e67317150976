"""The vectors service: search by meaning and by words."""
