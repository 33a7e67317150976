"""The request bodies of workflows."""

from typing import Annotated

from pydantic import Field

from hivemem_contracts.agents.workflows.definition import Definition, SignalName, StepId
from hivemem_contracts.agents.workflows.models import Attempt, LeaseMs, RunStatus, StepToken
from hivemem_contracts.fields import Cursor, ExpectedVersion, Limit, Value, Version
from hivemem_contracts.identifiers import Id
from hivemem_contracts.limits import LIST_DEFAULT, STEP_WAIT_MAXIMUM_MS, STEPS_CLAIMED
from hivemem_contracts.model import RequestBody

LEASE_DEFAULT_MS = 30_000
Handlers = Annotated[list[Id], Field(min_length=1, max_length=500)]


class PutWorkflow(RequestBody):
    """Store a new version of a workflow. Runs keep the version that they began with."""

    name: Id
    definition: Definition
    expect_version: ExpectedVersion | None = None


class GetWorkflow(RequestBody):
    name: Id
    version: Version | None = Field(default=None, description="The newest version, if left out.")


class ListWorkflows(RequestBody):
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class StartRun(RequestBody):
    name: Id = Field(description="The workflow.")
    run_id: Id | None = Field(default=None, description="A ULID if left out.")
    input: Value = None
    session_id: Id | None = Field(
        default=None, description="The session whose state is the run's, and which gets each result as an event."
    )
    version: Version | None = Field(default=None, description="The newest version of the workflow, if left out.")


class GetRun(RequestBody):
    """Read a run with its newest steps. A cursor leads to the steps before them."""

    run_id: Id
    limit: Limit = Field(default=LIST_DEFAULT, description="Number of steps to return.")
    cursor: Cursor | None = None


class ListRuns(RequestBody):
    """List runs, newest first."""

    name: Id | None = Field(default=None, description="Only runs of this workflow.")
    status: RunStatus | None = None
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class CancelRun(RequestBody):
    run_id: Id


class SignalRun(RequestBody):
    """Send a signal to a run. It is kept until a step waits for it."""

    run_id: Id
    name: SignalName = Field(description="The signal.")
    data: Value = None


class RetryRun(RequestBody):
    run_id: Id
    step: StepId | None = Field(
        default=None,
        description="The step to go on with. If left out, the step that failed or was cancelled; the first one for a "
        "run that was compensated.",
    )


class ClaimSteps(RequestBody):
    """Claim steps of a workflow that can run now, the longest-waiting first."""

    name: Id = Field(description="The workflow.")
    run_id: Id | None = Field(default=None, description="Only steps of this run.")
    handlers: Handlers | None = Field(default=None, description="Only tasks of these handlers.")
    lease: LeaseMs = Field(default=LEASE_DEFAULT_MS, description="Milliseconds until others can claim them.")
    wait_ms: Annotated[int, Field(ge=0, le=STEP_WAIT_MAXIMUM_MS)] = Field(
        default=0, description="Wait at most this long for a step."
    )
    limit: Annotated[int, Field(ge=1, le=STEPS_CLAIMED)] = 1


class ReportStep(RequestBody):
    """Report the result of a claimed step, and go on with the run. A report without `error` is a success."""

    run_id: Id
    step: StepId
    attempt: Attempt
    token: StepToken
    output: Value = None
    error: Value = Field(default=None, description="Any JSON but null: the attempt failed.")
    final: bool = Field(default=False, description="With `error`: no further attempt can help.")
    claim_next: bool = Field(default=False, description="Claim the step that comes next in the run at once.")
    handlers: Handlers | None = Field(default=None, description="With `claim_next`: only a task of these handlers.")
    lease: LeaseMs = Field(default=LEASE_DEFAULT_MS, description="With `claim_next`: milliseconds of the claim.")


class RenewStep(RequestBody):
    """Prolong the claim of a step. Refused once the step is not the caller's any more, or the run is cancelled."""

    run_id: Id
    step: StepId
    attempt: Attempt
    token: StepToken
    lease: LeaseMs = Field(default=LEASE_DEFAULT_MS, description="Milliseconds from now.")


class RecordOnce(RequestBody):
    """Record the result of a side effect of a step under a key, or look it up. The first result is kept."""

    default_is_absent = False

    run_id: Id
    step: StepId
    token: StepToken
    key: Id
    result: Value = Field(default=None, description="The result to record; left out, it is only looked up.")
