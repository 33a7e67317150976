"""What the windows worker does without a request: at the end of a session, and in time."""
