"""The changes that the agents service announces, each with the model of its value."""

from typing import Final

from pydantic import JsonValue

from hivemem_contracts.agents.models import AgentStatus, Cycle
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

CHANGES: Final = (
    ChangeKind("agent", "registered", AgentDefined, "An agent was registered, or its definition changed.", _AGENT),
    ChangeKind("agent", "status_changed", AgentDefined, "The status of an agent changed.", _AGENT),
    ChangeKind("cycle", "begun", Cycle, "An agent began a cycle.", _CYCLE, keyed=True),
    ChangeKind("cycle", "proposed", Cycle, "A cycle got its proposal.", _CYCLE, keyed=True),
    ChangeKind("cycle", "completed", Cycle, "A cycle ended with success.", _CYCLE, keyed=True),
    ChangeKind("cycle", "failed", Cycle, "A cycle ended with a failure or an interruption.", _CYCLE, keyed=True),
    ChangeKind("cycle", "abandoned", Cycle, "A cycle was abandoned.", _CYCLE, keyed=True),
)
