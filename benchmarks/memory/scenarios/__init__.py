"""The scenarios by name, in the order in which they run."""

from typing import Final

from benchmarks.memory.scenarios import at_once, batches, listing, one_agent, past

SCENARIOS: Final = {
    "one-agent": one_agent.run,
    "at-once": at_once.run,
    "batches": batches.run,
    "past": past.run,
    "listing": listing.run,
}
