"""The Hivemem worker for sessions: events, state and forks."""
