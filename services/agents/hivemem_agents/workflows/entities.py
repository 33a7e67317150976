"""What the agents worker keeps of workflows: definitions, runs, and the steps that runs took."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, AnyEntity, Index, Scalar, Stamp, record_entity

ENDED: Final = ("completed", "failed", "compensated", "cancelled")
"""The statuses of a run that has no step left."""

ATTEMPTS: Final = 1_000_000
"""A token is the number of the step times this, plus the attempt: it grows along a run, and names its step."""


@dataclass(frozen=True, slots=True)
class WorkflowVersion:
    """A version of a definition, in the wire format. The ledger has its number and its time."""

    definition: dict[str, Any]
    created_by: str


def workflow_fields(name: str, version: int, workflow: WorkflowVersion, at: int) -> dict[str, Any]:
    """Return the wire format of a workflow without its steps."""
    return {
        "name": name,
        "version": version,
        "description": workflow.definition.get("description"),
        "steps": len(workflow.definition["steps"]),
        "created_by": workflow.created_by,
        "created_at": format_microseconds(at),
    }


def _announce_workflow(workflow: WorkflowVersion, stamp: Stamp) -> tuple[Announcement, ...]:
    value = workflow_fields(stamp.id, stamp.version, workflow, stamp.at)
    previous = stamp.version - 1 or None
    return (Announcement("workflow", "defined", Address((stamp.id,)), stamp.id, stamp.version, previous, value),)


WORKFLOW: Final = record_entity(
    "workflow",
    WorkflowVersion,
    announce=_announce_workflow,
    indexes=(Index("all", (), None),),
    told_as={"workflow": lambda namespace, key: namespace},
)


@dataclass(frozen=True, slots=True)
class RunHead:
    """A run, without its steps; times are microseconds since 1970.

    `active` has the numbers of open steps. `undo` is the number of the step that is undone first if
    the run fails; each such step has the number of the one before it. `signals` wait for their step.
    """

    name: str
    version: int
    status: str
    input: Any
    state: dict[str, Any]
    session_id: str | None
    created_by: str
    created_at: int
    updated_at: int
    finished_at: int | None = None
    error: dict[str, Any] | None = None
    stopped_at: str | None = None
    steps: int = 0
    active: list[int] | tuple[int, ...] = ()
    visits: dict[str, int] | None = None
    signals: list[dict[str, Any]] | tuple[dict[str, Any], ...] = ()
    undo: int | None = None
    undone: int = 0
    compensating: bool = False


def run_fields(run_id: str, run: RunHead) -> dict[str, Any]:
    """Return the wire format of a run without its steps and its state."""
    finished = None if run.finished_at is None else format_microseconds(run.finished_at)
    return {
        "run_id": run_id,
        "name": run.name,
        "version": run.version,
        "status": run.status,
        "session_id": run.session_id,
        "error": run.error,
        "step_count": run.steps,
        "created_by": run.created_by,
        "created_at": format_microseconds(run.created_at),
        "updated_at": format_microseconds(run.updated_at),
        "finished_at": finished,
    }


def _index_run(run: RunHead) -> Mapping[str, Scalar]:
    return {"name": run.name, "status": run.status, "created_at": run.created_at}


RUN: Final = record_entity(
    "run_progress",
    RunHead,
    indexed=_index_run,
    indexes=(
        Index("all", (), "created_at"),
        Index("name", ("name",), "created_at"),
        Index("status", ("status",), "created_at"),
        Index("name_status", ("name", "status"), "created_at"),
    ),
    history=False,
)


@dataclass(frozen=True, slots=True)
class RunEvent:
    """What the feed tells of a run: the name of the change and its value in the wire format."""

    operation: str
    value: dict[str, Any]


def _announce_run(event: RunEvent, stamp: Stamp) -> tuple[Announcement, ...]:
    name = event.value["name"]
    previous = stamp.version - 1 or None
    address = Address((name,), stamp.id)
    return (Announcement("run", event.operation, address, name, stamp.version, previous, event.value, stamp.id),)


RUN_EVENT: Final = record_entity(
    "run", RunEvent, announce=_announce_run, told_as={"run": lambda namespace, key: key or ""}
)


@dataclass(frozen=True, slots=True)
class StepExecution:
    """One visit of a run to a step; times are microseconds since 1970.

    `available_at` is when it can be claimed, `due_at` when the worker has to act on it; each is None for never.
    `reported` says whether the attempt was reported; `accepted` is a result that the run has not gone on with yet,
    because its session gets it first.
    """

    run_id: str
    number: int
    workflow: str
    id: str
    name: str
    kind: str
    visit: int
    status: str
    created_at: int
    branch: int | None = None
    parent: int | None = None
    left: int = 0
    attempt: int = 0
    failures: int = 0
    reported: bool = False
    timeout: int | None = None
    output: Any = None
    error: Any = None
    accepted: dict[str, Any] | None = None
    claimed_by: str | None = None
    claim: str | None = None
    batch: list[str] | None = None
    until: int | None = None
    deadline: int | None = None
    available_at: int | None = None
    due_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    signal: str | None = None
    change: list[str] | None = None
    feed: str | None = None
    after: int = 0
    undo: int | None = None
    undoes: int | None = None

    @property
    def place(self) -> str:
        return step_place(self.run_id, self.number)

    @property
    def token(self) -> int:
        return self.number * ATTEMPTS + self.attempt


def step_place(run_id: str, number: int) -> str:
    """Return the id of a step in the ledger; the steps of a run sort by number."""
    return f"{run_id}\x01{number:07}"


def run_of(place: str) -> str:
    """Return the run of a step in the ledger. An id has no control characters."""
    return place.rpartition("\x01")[0]


def step_fields(step: StepExecution) -> dict[str, Any]:
    """Return the wire format of a step."""
    times = {name: getattr(step, name) for name in ("until", "started_at", "finished_at")}
    names = ("id", "name", "number", "kind", "visit", "branch", "status", "attempt", "output", "error", "claimed_by")
    shown = {name: None if at is None else format_microseconds(at) for name, at in times.items()}
    return {**{name: getattr(step, name) for name in names}, **shown}


def _index_step(step: StepExecution) -> Mapping[str, Scalar]:
    return {
        "workflow": step.workflow,
        "name": step.name,
        "available_at": step.available_at,
        "due_at": step.due_at,
        "listening": step.change is not None and step.status == "waiting",
    }


STEP: Final = record_entity(
    "run_step",
    StepExecution,
    indexed=_index_step,
    indexes=(
        Index("ready", ("workflow",), "available_at", covering=("name",)),
        Index("ready_handler", ("workflow", "name"), "available_at"),
        Index("due", (), "due_at"),
        Index("listening", (), None, only="listening"),
    ),
    history=False,
)


@dataclass(frozen=True, slots=True)
class OnceResult:
    """The result of a side effect of a step."""

    result: Any


ONCE: Final = record_entity("run_once", OnceResult, history=False)


def once_place(run_id: str, number: int, key: str) -> str:
    return f"{step_place(run_id, number)}\x01{key}"


WORKFLOW_ENTITIES: Final[tuple[AnyEntity, ...]] = (WORKFLOW, RUN, RUN_EVENT, STEP, ONCE)
