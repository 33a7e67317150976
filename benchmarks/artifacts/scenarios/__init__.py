"""The scenarios by name, in the order in which they run."""

from typing import Final

from benchmarks.artifacts.scenarios import large, presigned, small, workspaces

SCENARIOS: Final = {"small": small.run, "large": large.run, "presigned": presigned.run, "workspaces": workspaces.run}
