"""The shapes of runs and their steps on the wire."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.identifiers import Time
from hivemem_contracts.limits import LEASE_MAXIMUM_MS, LEASE_MINIMUM_MS
from hivemem_contracts.model import ReplyBody

RunStatus = Literal["running", "waiting", "completed", "failed", "compensated", "cancelled"]
StepStatus = Literal["pending", "running", "waiting", "completed", "failed", "cancelled", "skipped"]
StepKind = Literal["task", "sleep", "wait", "parallel", "compensation"]
StepToken = Annotated[int, Field(ge=1, le=2**53)]
Attempt = Annotated[int, Field(ge=1, le=1_000_000)]
LeaseMs = Annotated[int, Field(ge=LEASE_MINIMUM_MS, le=LEASE_MAXIMUM_MS)]


class WorkflowView(ReplyBody):
    """A version of a workflow."""

    name: str
    version: int
    definition: WorkflowDefinition
    created_by: str
    created_at: Time


class WorkflowSummary(ReplyBody):
    """The newest version of a workflow, without its steps."""

    name: str
    version: int
    description: str | None = None
    steps: int = Field(description="Number of steps, without those of branches.")
    created_by: str
    created_at: Time


class RunStep(ReplyBody):
    """One visit of a run to a step."""

    id: str = Field(description="The step's id in the definition.")
    name: str = Field(description="The handler of a task or a compensation; the id of any other step.")
    number: int = Field(description="Counts the steps of the run from 1, in the order in which they began.")
    kind: StepKind
    visit: int = Field(description="Counts the visits to this step from 1.")
    branch: int | None = Field(default=None, description="The branch of a parallel step, from 0.")
    status: StepStatus
    attempt: int = Field(description="Number of claims so far.")
    output: JsonValue = None
    error: JsonValue = Field(default=None, description="That of the last failed attempt.")
    claimed_by: str | None = None
    until: Time | None = Field(default=None, description="The end of the claim, of the wait, or of the pause.")
    started_at: Time | None = None
    finished_at: Time | None = None


class RunSummary(ReplyBody):
    """A run without its steps and its state."""

    run_id: str
    name: str
    version: int = Field(description="The version of the workflow that it began with, and keeps.")
    status: RunStatus
    session_id: str | None = None
    error: JsonValue = Field(default=None, description="Why it failed: `{step, error}`.")
    step_count: int = Field(description="Number of steps begun.")
    created_by: str
    created_at: Time
    updated_at: Time
    finished_at: Time | None = None


class Run(RunSummary):
    """A run with its state and its newest steps, in the order in which they began."""

    input: JsonValue = None
    state: dict[str, JsonValue] = Field(description="That of its session, if it has one.")
    steps: list[RunStep]
    cursor: str | None = Field(default=None, description="Leads to the steps before these.")


class ClaimedStep(ReplyBody):
    """A step for the process that claimed it."""

    run_id: str
    step: str = Field(description="The step's id, for the report.")
    name: str = Field(description="The handler.")
    number: int
    kind: Literal["task", "compensation"]
    input: JsonValue = Field(default=None, description="The input of the run.")
    state: dict[str, JsonValue]
    output: JsonValue = Field(default=None, description="For a compensation, the output of the step that it undoes.")
    attempt: int
    token: int = Field(description="Belongs to this attempt alone.")
    until: Time = Field(description="Others can claim the step after this moment: report or renew it before.")
