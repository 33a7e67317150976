"""Each operation of workflows, declared once. They belong to the agents service."""

from typing import Final

from hivemem_contracts.agents.workflows import models, replies, requests
from hivemem_contracts.errors import AlreadyExists, IllegalTransition, LeaseHeld, NotFound, RevisionConflict
from hivemem_contracts.operations import AnyOperation, Operation

SERVICE: Final = "agents"

WORKFLOW_PUT = Operation(
    SERVICE,
    "workflow_put",
    requests.PutWorkflow,
    replies.WorkflowWritten,
    summary="Store a new version of a workflow.",
    writes=True,
    route="name",
    errors=(RevisionConflict,),
)
WORKFLOW_GET = Operation(
    SERVICE,
    "workflow_get",
    requests.GetWorkflow,
    models.WorkflowView,
    summary="Read a workflow, its newest version or an older one.",
    errors=(NotFound,),
)
WORKFLOWS = Operation(
    SERVICE,
    "workflows",
    requests.ListWorkflows,
    replies.WorkflowPage,
    summary="List workflows by name.",
)
RUN_START = Operation(
    SERVICE,
    "run_start",
    requests.StartRun,
    replies.RunWritten,
    summary="Start a run of a workflow.",
    writes=True,
    route="run_id",
    errors=(NotFound, AlreadyExists, IllegalTransition),
)
RUN_GET = Operation(
    SERVICE,
    "run_get",
    requests.GetRun,
    models.Run,
    summary="Read a run with its newest steps.",
    errors=(NotFound,),
)
RUNS = Operation(
    SERVICE,
    "runs",
    requests.ListRuns,
    replies.RunPage,
    summary="List runs by workflow and status, newest first.",
)
RUN_CANCEL = Operation(
    SERVICE,
    "run_cancel",
    requests.CancelRun,
    replies.RunWritten,
    summary="Cancel a run; its running steps are not waited for.",
    writes=True,
    route="run_id",
    errors=(NotFound, IllegalTransition),
)
RUN_SIGNAL = Operation(
    SERVICE,
    "run_signal",
    requests.SignalRun,
    replies.RunWritten,
    summary="Send a signal to a run.",
    writes=True,
    route="run_id",
    errors=(NotFound, IllegalTransition),
)
RUN_RETRY = Operation(
    SERVICE,
    "run_retry",
    requests.RetryRun,
    replies.RunWritten,
    summary="Go on with a run that failed or was cancelled.",
    writes=True,
    route="run_id",
    errors=(NotFound, IllegalTransition),
)
STEP_CLAIM = Operation(
    SERVICE,
    "step_claim",
    requests.ClaimSteps,
    replies.StepsClaimed,
    summary="Claim steps that can run now.",
    writes=True,
    durable=False,
    errors=(NotFound,),
)
STEP_REPORT = Operation(
    SERVICE,
    "step_report",
    requests.ReportStep,
    replies.StepReported,
    summary="Report the result of a claimed step.",
    writes=True,
    route="run_id",
    errors=(NotFound, LeaseHeld, IllegalTransition),
)
STEP_RENEW = Operation(
    SERVICE,
    "step_renew",
    requests.RenewStep,
    replies.StepRenewed,
    summary="Prolong the claim of a step.",
    writes=True,
    durable=False,
    errors=(NotFound, LeaseHeld, IllegalTransition),
)
STEP_ONCE = Operation(
    SERVICE,
    "step_once",
    requests.RecordOnce,
    replies.OnceRecorded,
    summary="Record the result of a side effect of a step, once.",
    writes=True,
    durable=False,
    errors=(NotFound, LeaseHeld),
)

OPERATIONS: Final[tuple[AnyOperation, ...]] = (
    WORKFLOW_PUT,
    WORKFLOW_GET,
    WORKFLOWS,
    RUN_START,
    RUN_GET,
    RUNS,
    RUN_CANCEL,
    RUN_SIGNAL,
    RUN_RETRY,
    STEP_CLAIM,
    STEP_REPORT,
    STEP_RENEW,
    STEP_ONCE,
)
