"""The agents service: autonomous agents, their cycles and their records."""
