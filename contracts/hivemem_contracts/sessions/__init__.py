"""The sessions service: events and state, statuses, state machines."""
