"""Each operation of the agents service, declared once."""

from typing import Final

from hivemem_contracts.agents import replies, requests
from hivemem_contracts.agents.models import Agent, Cycle
from hivemem_contracts.agents.workflows.operations import OPERATIONS as WORKFLOW_OPERATIONS
from hivemem_contracts.agents.workflows.operations import RUN_CANCEL as RUN_CANCEL
from hivemem_contracts.agents.workflows.operations import RUN_GET as RUN_GET
from hivemem_contracts.agents.workflows.operations import RUN_RETRY as RUN_RETRY
from hivemem_contracts.agents.workflows.operations import RUN_SIGNAL as RUN_SIGNAL
from hivemem_contracts.agents.workflows.operations import RUN_START as RUN_START
from hivemem_contracts.agents.workflows.operations import RUNS as RUNS
from hivemem_contracts.agents.workflows.operations import STEP_CLAIM as STEP_CLAIM
from hivemem_contracts.agents.workflows.operations import STEP_ONCE as STEP_ONCE
from hivemem_contracts.agents.workflows.operations import STEP_RENEW as STEP_RENEW
from hivemem_contracts.agents.workflows.operations import STEP_REPORT as STEP_REPORT
from hivemem_contracts.agents.workflows.operations import WORKFLOW_GET as WORKFLOW_GET
from hivemem_contracts.agents.workflows.operations import WORKFLOW_PUT as WORKFLOW_PUT
from hivemem_contracts.agents.workflows.operations import WORKFLOWS as WORKFLOWS
from hivemem_contracts.errors import AlreadyExists, IllegalTransition, LeaseHeld, NotFound, RevisionConflict
from hivemem_contracts.operations import Operation, ServiceContract

NAME: Final = "agents"

REGISTER = Operation(
    NAME,
    "register",
    requests.RegisterAgent,
    replies.AgentWritten,
    summary="Register an agent, or change its definition.",
    writes=True,
    route="agent_id",
    errors=(RevisionConflict,),
)
GET = Operation(
    NAME,
    "get",
    requests.GetAgent,
    Agent,
    summary="Read an agent.",
    errors=(NotFound,),
)
LIST = Operation(
    NAME,
    "list",
    requests.ListAgents,
    replies.AgentPage,
    summary="List agents by id.",
)
SET_STATUS = Operation(
    NAME,
    "set_status",
    requests.SetAgentStatus,
    replies.AgentWritten,
    summary="Pause an agent, let it go on, or retire it for good.",
    writes=True,
    route="agent_id",
    errors=(NotFound, IllegalTransition),
)
CYCLE_BEGIN = Operation(
    NAME,
    "cycle_begin",
    requests.BeginCycle,
    replies.CycleWritten,
    summary="Begin the next cycle of an active agent; one at a time is open.",
    writes=True,
    route="agent_id",
    errors=(NotFound, IllegalTransition, LeaseHeld),
)
PROPOSE = Operation(
    NAME,
    "propose",
    requests.ProposeCycle,
    replies.CycleWritten,
    summary="Write the proposal of the open cycle, once.",
    writes=True,
    route="agent_id",
    errors=(NotFound, IllegalTransition, LeaseHeld),
)
COMPLETE = Operation(
    NAME,
    "complete",
    requests.CompleteCycle,
    replies.CycleWritten,
    summary="End the open cycle with its result, after its proposal.",
    writes=True,
    route="agent_id",
    errors=(NotFound, IllegalTransition, LeaseHeld),
)
ABANDON = Operation(
    NAME,
    "abandon",
    requests.AbandonCycle,
    replies.CycleWritten,
    summary="End the open cycle without a result.",
    writes=True,
    route="agent_id",
    errors=(NotFound, IllegalTransition, LeaseHeld),
)
RESUME = Operation(
    NAME,
    "resume",
    requests.ResumeAgent,
    replies.Resumed,
    summary="Read where an agent stands, and the step that comes next.",
    errors=(NotFound,),
)
CYCLE = Operation(
    NAME,
    "cycle",
    requests.ReadCycle,
    Cycle,
    summary="Read a cycle.",
    errors=(NotFound,),
)
CYCLES = Operation(
    NAME,
    "cycles",
    requests.ListCycles,
    replies.CyclePage,
    summary="List the cycles of an agent, forwards or backwards.",
    errors=(NotFound,),
)
RECORD = Operation(
    NAME,
    "record",
    requests.WriteRecord,
    replies.RecordWritten,
    summary="Record an observation, a reflection, a plan or a result as a memory of the agent.",
    writes=True,
    route="agent_id",
    errors=(NotFound,),
)
RECORDS = Operation(
    NAME,
    "records",
    requests.ListRecords,
    replies.RecordPage,
    summary="List the records of an agent, by kind, cycle or time.",
    errors=(NotFound,),
)
RECALL = Operation(
    NAME,
    "recall",
    requests.RecallRecords,
    replies.RecalledRecords,
    summary="Find an agent's records by meaning, with the results of its newest cycles.",
    errors=(NotFound,),
)
PRUNE = Operation(
    NAME,
    "prune",
    requests.PruneRecords,
    replies.Pruned,
    summary="Delete an agent's records by age and relevance.",
    writes=True,
    route="agent_id",
    errors=(NotFound,),
)
TRACE = Operation(
    NAME,
    "trace",
    requests.ReadTrace,
    replies.TracePage,
    summary="Export everything about an agent, in order.",
    errors=(NotFound,),
)
TRACE_IMPORT = Operation(
    NAME,
    "trace_import",
    requests.ImportTrace,
    replies.TraceImported,
    summary="Import the lines of a trace; known lines are left alone.",
    writes=True,
    errors=(AlreadyExists, NotFound),
)

AGENTS: Final = ServiceContract(
    NAME,
    "Agents: their cycles of proposal and result, their records, and workflows.",
    (
        REGISTER,
        GET,
        LIST,
        SET_STATUS,
        CYCLE_BEGIN,
        PROPOSE,
        COMPLETE,
        ABANDON,
        RESUME,
        CYCLE,
        CYCLES,
        RECORD,
        RECORDS,
        RECALL,
        PRUNE,
        TRACE,
        TRACE_IMPORT,
        *WORKFLOW_OPERATIONS,
    ),
    aliases={"workflows": WORKFLOW_OPERATIONS},
)
