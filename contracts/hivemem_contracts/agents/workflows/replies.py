"""The reply bodies of workflows."""

from pydantic import Field, JsonValue

from hivemem_contracts.agents.workflows.models import (
    ClaimedStep,
    Run,
    RunStatus,
    RunSummary,
    StepStatus,
    WorkflowSummary,
    WorkflowView,
)
from hivemem_contracts.identifiers import Time
from hivemem_contracts.model import ReplyBody


class WorkflowWritten(WorkflowView):
    """A version of a workflow right after a write. A definition that changes nothing makes no version."""

    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class WorkflowPage(ReplyBody):
    items: list[WorkflowSummary] = Field(description="By name.")
    cursor: str | None


class RunWritten(Run):
    """A run after a write."""

    duplicate: bool = Field(default=False, description="True if this write was done before: the run as it is now.")


class RunPage(ReplyBody):
    items: list[RunSummary]
    cursor: str | None


class StepsClaimed(ReplyBody):
    """The claimed steps in `items`; the fields of the first one are here as well, or null."""

    run_id: str | None = None
    step: str | None = None
    name: str | None = None
    number: int | None = None
    kind: str | None = None
    input: JsonValue = None
    state: dict[str, JsonValue] | None = None
    output: JsonValue = None
    attempt: int | None = None
    token: int | None = None
    until: Time | None = None
    items: list[ClaimedStep]
    run_status: RunStatus | None = Field(default=None, description="The status of the run that was asked for.")
    duplicate: bool = Field(default=False, description="True if this claim was made before: what is left of it.")


class StepReported(ReplyBody):
    run_id: str
    step: str
    number: int
    attempt: int
    status: StepStatus = Field(description="`pending`: there will be another attempt.")
    run_status: RunStatus
    next: ClaimedStep | None = Field(default=None, description="The step that was claimed by `claim_next`.")
    duplicate: bool = Field(default=False, description="True if this was reported before: the first result again.")


class StepRenewed(ReplyBody):
    run_id: str
    step: str
    attempt: int
    token: int
    until: Time
    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class OnceRecorded(ReplyBody):
    recorded: bool = Field(description="Whether there is a result.")
    result: JsonValue = None
    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")
