"""The changes that the agents service announces, each with the model of its value."""

from typing import Final

from pydantic import JsonValue

from hivemem_contracts.agents.models import AgentStatus, Cycle
from hivemem_contracts.agents.workflows.models import RunSummary, WorkflowSummary
from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.model import ReplyBody


class AgentDefined(ReplyBody):
    """The definition and the status of an agent."""

    agent_id: str
    name: str | None = None
    directives: JsonValue = None
    overrides: dict[str, JsonValue]
    metadata: dict[str, JsonValue]
    status: AgentStatus


_AGENT: Final = ("agent_id",)
_CYCLE: Final = ("agent_id", "number")
_RUN: Final = ("workflow", "run_id")

CHANGES: Final = (
    ChangeKind("agent", "registered", AgentDefined, "An agent was registered, or its definition changed.", _AGENT),
    ChangeKind("agent", "status_changed", AgentDefined, "The status of an agent changed.", _AGENT),
    ChangeKind("cycle", "begun", Cycle, "An agent began a cycle.", _CYCLE, keyed=True),
    ChangeKind("cycle", "proposed", Cycle, "A cycle got its proposal.", _CYCLE, keyed=True),
    ChangeKind("cycle", "completed", Cycle, "A cycle ended with success.", _CYCLE, keyed=True),
    ChangeKind("cycle", "failed", Cycle, "A cycle ended with a failure or an interruption.", _CYCLE, keyed=True),
    ChangeKind("cycle", "abandoned", Cycle, "A cycle was abandoned.", _CYCLE, keyed=True),
    ChangeKind("workflow", "defined", WorkflowSummary, "A version of a workflow was stored.", ("workflow",)),
    ChangeKind("run", "started", RunSummary, "A run of a workflow began.", _RUN, keyed=True),
    ChangeKind("run", "waiting", RunSummary, "All that is left of a run waits.", _RUN, keyed=True),
    ChangeKind("run", "resumed", RunSummary, "A run goes on after a wait or a retry.", _RUN, keyed=True),
    ChangeKind("run", "completed", RunSummary, "A run took its last step.", _RUN, keyed=True),
    ChangeKind("run", "failed", RunSummary, "A run failed.", _RUN, keyed=True),
    ChangeKind("run", "compensated", RunSummary, "A run failed, and its steps are undone.", _RUN, keyed=True),
    ChangeKind("run", "cancelled", RunSummary, "A run was cancelled.", _RUN, keyed=True),
)
