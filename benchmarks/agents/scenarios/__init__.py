"""The scenarios by name, in the order in which they run."""

from typing import Final

from benchmarks.agents.scenarios import at_once, one_agent, resume, runs

SCENARIOS: Final = {
    "one-agent": one_agent.run,
    "at-once": at_once.run,
    "resume": resume.run,
    "runs": runs.run,
}
