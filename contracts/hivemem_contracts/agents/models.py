"""The shapes of agents, cycles and records on the wire."""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from hivemem_contracts.artifacts.names import ArtifactName
from hivemem_contracts.fields import Metadata, Value, Version
from hivemem_contracts.identifiers import Id, Time
from hivemem_contracts.limits import AGENT_ID_CHARACTERS, CYCLE_ARTIFACTS
from hivemem_contracts.memory.models import Importance
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.patterns import ONE_SEGMENT

RECORDS_NAMESPACE: Final = "app:agents"
"""The parent of all namespaces of records: an agent's records are memories in `app:agents:<agent_id>`."""

AgentId = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=AGENT_ID_CHARACTERS,
        pattern=ONE_SEGMENT,
    ),
    NamedType(
        "AgentId",
        f"The id of an agent: 1 to {AGENT_ID_CHARACTERS} characters, no `:`, no control characters, no space at "
        "either end.",
    ),
]
CycleNumber = Annotated[int, Field(ge=1, le=2**53)]
AgentStatus = Literal["active", "paused", "retired"]
CycleStatus = Literal["begun", "proposed", "completed", "failed", "abandoned"]
CycleOutcome = Literal["success", "failure", "interrupted"]
RecordKind = Literal["observation", "reflection", "plan", "result"]
Step = Literal["begin", "propose", "act"]
ArtifactReference = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]


class Tool(RequestBody):
    """A tool call that a cycle proposes."""

    name: Id
    arguments: Value = Field(default_factory=dict)


class WorkspaceCue(RequestBody):
    """The part of a workspace that a cycle works on."""

    workspace_id: Id
    version: Version | None = Field(default=None, description="The newest version, if left out.")
    paths: Annotated[list[ArtifactName], Field(max_length=CYCLE_ARTIFACTS)] | None = Field(
        default=None, description="The whole workspace, if left out."
    )


class Proposal(ReplyBody):
    """What a cycle is going to do."""

    thoughts: JsonValue = None
    reasoning: JsonValue = None
    plan: JsonValue = None
    tool: Tool | None = None
    workspace: WorkspaceCue | None = None
    by: str = Field(description="The sender of the request.")
    at: Time


class Result(ReplyBody):
    """What a cycle came to."""

    outcome: CycleOutcome
    output: JsonValue = None
    error: JsonValue = None
    artifacts: list[str] = Field(default_factory=list, description="URLs of files.")
    by: str = Field(description="The sender of the request.")
    at: Time


class Cycle(ReplyBody):
    """One turn of an agent: a proposal, then a result."""

    agent_id: str
    number: int = Field(description="Counts the cycles of the agent from 1, without a gap.")
    status: CycleStatus = Field(
        description="`completed` after the outcome `success`, `failed` after `failure` or `interrupted`."
    )
    proposal: Proposal | None = None
    result: Result | None = None
    reason: str | None = Field(default=None, description="Why it was abandoned.")
    session_id: str | None = None
    created_by: str
    created_at: Time
    updated_at: Time


class Agent(ReplyBody):
    """An autonomous agent, as it is defined and how far it is."""

    agent_id: str
    name: str | None = None
    directives: JsonValue = None
    overrides: dict[str, JsonValue]
    metadata: dict[str, JsonValue]
    status: AgentStatus
    version: int = Field(description="Counts the changes of its definition and its status.")
    cycles: int = Field(description="Number of cycles begun.")
    open_cycle: int | None = Field(default=None, description="The number of the cycle that has not ended.")
    created_by: str
    created_at: Time
    updated_at: Time


class AgentRecord(ReplyBody):
    """A record of an agent, which is a memory."""

    agent_id: str
    kind: RecordKind
    number: int | None = Field(default=None, description="The cycle that it belongs to.")
    namespace: str
    key: str
    version: int = Field(description="The version of the memory.")
    content: JsonValue
    importance: Importance | None = None
    metadata: Metadata = Field(default_factory=dict)
    created_by: str
    at: Time = Field(description="When it was recorded first.")
