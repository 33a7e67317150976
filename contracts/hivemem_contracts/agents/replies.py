"""The reply bodies of the agents service."""

from typing import Literal

from pydantic import Field, JsonValue

from hivemem_contracts.agents.models import Agent, AgentRecord, Cycle, CycleOutcome, RecordKind, Step
from hivemem_contracts.agents.requests import TraceLine
from hivemem_contracts.identifiers import Time
from hivemem_contracts.memory.models import Importance
from hivemem_contracts.model import ReplyBody
from hivemem_contracts.vectors.models import Degraded, Recalled


class AgentWritten(Agent):
    """An agent after a write."""

    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class CycleWritten(Cycle):
    """A cycle after a write."""

    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class AgentPage(ReplyBody):
    items: list[Agent] = Field(description="By id.")
    cursor: str | None


class CyclePage(ReplyBody):
    items: list[Cycle]
    cursor: str | None


class Resumed(ReplyBody):
    """Where an agent stands, and the step that comes next."""

    agent: Agent
    cycle: Cycle | None = Field(default=None, description="The open cycle.")
    step: Step = Field(
        description="`begin` a cycle; `propose` in the open one; `act` on its proposal, and complete it."
    )


class RecordWritten(ReplyBody):
    namespace: str
    key: str
    version: int
    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class RecordPage(ReplyBody):
    items: list[AgentRecord]
    cursor: str | None


class CycleResult(ReplyBody):
    """The result of one of the newest cycles."""

    number: int
    outcome: CycleOutcome
    output: JsonValue = None
    error: JsonValue = None
    at: Time


class RecalledRecords(ReplyBody):
    items: list[Recalled] = Field(description="The best first.")
    results: list[CycleResult] = Field(description="The newest first.")
    degraded: Degraded | None = Field(default=None, description="null: the answer is complete.")
    cut: Literal["tokens", "bytes"] | None = Field(
        default=None, description="Why items were left out: `max_tokens`, or the size of one answer."
    )


class TracePage(ReplyBody):
    items: list[TraceLine]
    cursor: str | None


class TraceImported(ReplyBody):
    lines: int = Field(description="Number of lines that are there now: imported by this request, or known before.")
    duplicate: bool = Field(default=False, description="True if this was done before: the first result again.")


class PrunedRecord(ReplyBody):
    """A record that was deleted, or would be."""

    key: str
    kind: RecordKind
    at: Time
    importance: Importance | None = None
    relevance: float
    why: Literal["older_than_days", "min_relevance", "max_entries"]


class Pruned(ReplyBody):
    dry_run: bool
    checked: int = Field(description="Number of records compared.")
    pruned: int = Field(description="Number of records deleted, or that would be.")
    left: int = Field(description="Number of records still to delete: prune again. Always 0 for a dry run.")
    items: list[PrunedRecord] = Field(description="At most 100 of them, the oldest first.")
    duplicate: bool = Field(default=False, description="True if this was done before: the first result again.")
