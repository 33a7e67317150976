"""The request bodies of the agents service."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from hivemem_contracts.agents.models import (
    AgentId,
    AgentStatus,
    ArtifactReference,
    CycleNumber,
    CycleOutcome,
    CycleStatus,
    Proposal,
    RecordKind,
    Result,
    Tool,
    WorkspaceCue,
)
from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.fields import Cursor, ExpectedVersion, Limit, Metadata, Value, Version
from hivemem_contracts.identifiers import AgentName, Id, Time
from hivemem_contracts.limits import (
    BATCH_ITEMS,
    CYCLE_ARTIFACTS,
    LIST_DEFAULT,
    QUERY_CHARACTERS,
    RECALL_MAXIMUM,
    RECALL_WAIT_MAXIMUM_MS,
)
from hivemem_contracts.memory.models import Importance, LeaseClaim
from hivemem_contracts.model import RequestBody
from hivemem_contracts.patterns import NOT_BLANK

Reason = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Kinds = Annotated[list[RecordKind], Field(min_length=1, max_length=4)]


class RegisterAgent(RequestBody):
    """Register an agent, or change its definition. Fields that are left out stay as they were."""

    default_is_absent = False

    agent_id: AgentId
    name: Id | None = Field(default=None, description="Its name for people; an explicit null removes it.")
    directives: Value = Field(default=None, description="What it has to do: any JSON.")
    overrides: Metadata | None = Field(default=None, description="Settings of its runtime that differ from the usual.")
    metadata: Metadata | None = None
    expect_version: ExpectedVersion | None = None


class GetAgent(RequestBody):
    agent_id: AgentId


class ListAgents(RequestBody):
    status: AgentStatus | None = None
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class SetAgentStatus(RequestBody):
    agent_id: AgentId
    status: AgentStatus


class BeginCycle(RequestBody):
    agent_id: AgentId
    session_id: Id | None = None
    lease: LeaseClaim | None = Field(
        default=None,
        description="The lease under which the agent runs. A claim with an earlier token of this lease is refused from "
        "then on.",
    )


class ProposeCycle(RequestBody):
    agent_id: AgentId
    number: CycleNumber
    thoughts: Value = None
    reasoning: Value = None
    plan: Value = None
    tool: Tool | None = None
    workspace: WorkspaceCue | None = None
    lease: LeaseClaim | None = None


class CompleteCycle(RequestBody):
    agent_id: AgentId
    number: CycleNumber
    outcome: CycleOutcome
    output: Value = None
    error: Value = None
    artifacts: Annotated[list[ArtifactReference], Field(max_length=CYCLE_ARTIFACTS)] | None = Field(
        default=None, description="URLs of files that it saved."
    )
    lease: LeaseClaim | None = None


class AbandonCycle(RequestBody):
    agent_id: AgentId
    number: CycleNumber
    reason: Reason
    lease: LeaseClaim | None = None


class ResumeAgent(RequestBody):
    agent_id: AgentId


class ReadCycle(RequestBody):
    agent_id: AgentId
    number: CycleNumber


class ListCycles(RequestBody):
    agent_id: AgentId
    status: CycleStatus | None = None
    after: Annotated[int, Field(ge=0, le=2**53)] | None = Field(default=None, description="Only later cycles.")
    before: CycleNumber | None = Field(default=None, description="Only earlier cycles.")
    reverse: bool = Field(default=False, description="Newest first.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class WriteRecord(RequestBody):
    agent_id: AgentId
    kind: RecordKind
    content: Value
    number: CycleNumber | None = Field(default=None, description="The cycle that it belongs to.")
    importance: Importance | None = None
    metadata: Metadata | None = Field(default=None, description="Without `kind`, which the worker adds.")
    record_id: Id | None = Field(default=None, description="The key of the memory; an existing record gets a version.")


class ListRecords(RequestBody):
    """List records, in the order in which they were recorded."""

    agent_id: AgentId
    kind: RecordKind | None = None
    number: CycleNumber | None = Field(default=None, description="Only records of this cycle.")
    since: Time | None = None
    until: Time | None = Field(default=None, description="Before this moment.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class RecallRecords(RequestBody):
    agent_id: AgentId
    query: Annotated[str, StringConstraints(min_length=1, max_length=QUERY_CHARACTERS, pattern=NOT_BLANK)]
    kinds: Kinds | None = Field(default=None, description="Only records of these kinds.")
    limit: Annotated[int, Field(ge=1, le=RECALL_MAXIMUM)] = 10
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Limit the values to about this many tokens; an item over the limit is skipped."
    )
    wait_ms: Annotated[int, Field(ge=0, le=RECALL_WAIT_MAXIMUM_MS)] | None = Field(
        default=None, description="Wait at most this long until all earlier acknowledged records are indexed."
    )
    results: Annotated[int, Field(ge=0, le=RECALL_MAXIMUM)] = Field(
        default=5, description="Add the results of this many of the newest cycles."
    )


class ReadTrace(RequestBody):
    """Read everything about an agent: its definition, then its cycles and records by time."""

    agent_id: AgentId
    after: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="Only what came after this cycle had begun, without the definition."
    )
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class AgentLine(RequestBody):
    """A line of a trace: the definition of the agent."""

    type: Literal["agent"]
    agent_id: AgentId
    name: Id | None = None
    directives: Value = None
    overrides: Metadata
    metadata: Metadata
    status: AgentStatus
    version: Version
    created_by: AgentName
    created_at: Time
    updated_at: Time


class CycleLine(RequestBody):
    """A line of a trace: a cycle."""

    type: Literal["cycle"]
    agent_id: AgentId
    number: CycleNumber
    status: CycleStatus
    proposal: Proposal | None = None
    result: Result | None = None
    reason: Reason | None = None
    session_id: Id | None = None
    created_by: AgentName
    created_at: Time
    updated_at: Time


class RecordLine(RequestBody):
    """A line of a trace: a record."""

    type: Literal["record"]
    agent_id: AgentId
    key: Id
    kind: RecordKind
    number: CycleNumber | None = None
    content: Value
    importance: Importance | None = None
    metadata: Metadata
    created_by: AgentName
    at: Time


TraceLine = Annotated[AgentLine | CycleLine | RecordLine, Field(discriminator="type")]


class ImportTrace(RequestBody):
    items: list[TraceLine] = Field(
        min_length=1, max_length=BATCH_ITEMS, description="Lines in the order of `trace`. Known ones are left alone."
    )


class PruneRecords(RequestBody):
    """Delete records of an agent by age and by relevance. Deleted memories keep their history."""

    model_config = ConfigDict(
        json_schema_extra=refuses(combination(missing=["max_entries", "older_than_days", "min_relevance"]))
    )

    agent_id: AgentId
    kinds: Kinds | None = Field(default=None, description="Only records of these kinds.")
    max_entries: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="Keep this many, the most relevant ones."
    )
    older_than_days: Annotated[float, Field(gt=0, le=36_500)] | None = Field(
        default=None, description="Delete what was recorded earlier than this."
    )
    min_relevance: Importance | None = Field(
        default=None,
        description="Delete what is less relevant: the importance (0.5, if it has none), halved every "
        "`half_life_days`.",
    )
    half_life_days: Annotated[float, Field(gt=0, le=36_500)] = 30.0
    dry_run: bool = Field(default=False, description="Only tell what would be deleted.")
