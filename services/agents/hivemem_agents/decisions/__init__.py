"""The rules of agents, as pure functions."""
