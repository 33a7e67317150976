"""The worker that keeps sessions: events, state, forks."""
