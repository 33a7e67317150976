"""The scenarios by name, in the order in which they run."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from benchmarks.sessions.lab import Lab
from benchmarks.sessions.scenarios import durable, feed, history, one_agent, ready, sessions, synced

Scenario = Callable[[Lab], Awaitable[None]]

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "one-agent": one_agent.run,
    "sessions": sessions.run,
    "history": history.run,
    "durable": durable.run,
    "synced": synced.run,
    "feed": feed.run,
    "ready": ready.run,
}
