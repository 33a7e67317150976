"""Sessions, next to the session services of google-adk."""

from typing import Final

from benchmarks.rows import STORES
from benchmarks.sessions.lab import open_lab
from benchmarks.sessions.plots import PLOTS
from benchmarks.sessions.rows import PEERS, ROWS
from benchmarks.sessions.scenarios import SCENARIOS
from benchmarks.suite import Suite

SESSIONS: Final = Suite(
    name="sessions",
    title="Sessions: Hivemem next to google-adk",
    peer_name="ADK",
    stores=STORES,
    peers=PEERS,
    packages=("google-adk", "nats-py", "pymongo"),
    rows=ROWS,
    plots=PLOTS,
    scenarios=SCENARIOS,
    open_lab=open_lab,
)
