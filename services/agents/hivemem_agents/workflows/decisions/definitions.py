"""The rules of definitions: which documents are workflows, and what a run needs of one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson

from hivemem_agents.workflows.entities import WORKFLOW, WorkflowVersion
from hivemem_contracts.agents.workflows.definition import (
    END,
    KINDS,
    OF_TASKS,
    BranchStep,
    WorkflowDefinition,
    WorkflowStep,
)
from hivemem_contracts.agents.workflows.requests import PutWorkflow
from hivemem_contracts.errors import HiveError, InvalidRequest, RevisionConflict, TooLarge
from hivemem_contracts.limits import WORKFLOW_BYTES
from hivemem_contracts.nearest_name import suggestion
from hivemem_contracts.sizes import check_size
from hivemem_contracts.subjects import change_filters, change_prefix, encode_token
from hivemem_runtime.expressions.budget import Meter
from hivemem_runtime.expressions.evaluation import compiled
from hivemem_runtime.ledger.port import Append, Decided, Heads

StepT = TypeVar("StepT", bound=BranchStep)

OF_NEXT: Final = ("state", "input", "output", "signal")
OF_WHEN: Final = ("state", "input")
OF_CHANGE: Final = ("change", "state", "input")


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of a plan: its declaration, and the step that follows it; None behind the last one."""

    declared: BranchStep
    following: str | None
    top: str
    """The step of the run itself that it is, or is in."""

    @property
    def id(self) -> str:
        return self.declared.id

    @property
    def branches(self) -> Sequence[Sequence[BranchStep]]:
        return (self.declared.parallel or ()) if isinstance(self.declared, WorkflowStep) else ()


class Plan:
    """A definition as runs follow it."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        self.first = definition.steps[0].id
        self.max_steps = definition.max_steps
        self.steps: Mapping[str, PlannedStep] = {step.id: step for step in _planned(definition)}
        self.listens = any(step.declared.wait and step.declared.wait.change for step in self.steps.values())
        """Whether a step waits for changes: then a run has to know how far the feed is."""


def _planned(definition: WorkflowDefinition) -> Iterator[PlannedStep]:
    for step, following in _with_next(definition.steps):
        yield PlannedStep(step, following, step.id)
        for branch in step.parallel or ():
            for inner, behind in _with_next(branch):
                yield PlannedStep(inner, behind, step.id)


def _with_next(steps: Sequence[StepT]) -> Iterator[tuple[StepT, str | None]]:
    following = [step.id for step in steps[1:]]
    yield from zip(steps, [*following, None], strict=True)


def put_workflow(heads: Heads, body: PutWorkflow, tenant: str, sender: str) -> Decided:
    """Write a new version. A definition that changes nothing appends nothing: programs put theirs at each start."""
    head = heads(WORKFLOW, body.name)
    actual = 0 if head is None else head.version
    if body.expect_version is not None and body.expect_version != actual:
        raise RevisionConflict(
            f"workflow {body.name!r} is at version {actual}, {body.expect_version} was expected",
            expected=body.expect_version,
            actual=actual,
        )
    definition = checked_definition(body.definition, tenant)
    if head is not None and head.value is not None and head.value.definition == definition:
        return Decided((), (head.version, head.value, head.at))
    return Decided([Append(WORKFLOW, body.name, WorkflowVersion(definition, sender))], None)


def checked_definition(definition: WorkflowDefinition, tenant: str) -> dict[str, Any]:
    """Return the definition as plain JSON, as it was sent. Raises `InvalidRequest`, which names the step and the
    field, and `TooLarge`."""
    _check_ids(definition)
    for path, step in _paths(definition):
        if step.wait is not None and step.wait.change is not None:
            _check_change(step, f"{path}.wait.change", step.wait.change, tenant)
    meter = Meter()
    _check_list(definition.steps, "definition.steps", meter)
    for place, step in enumerate(definition.steps):
        for branch, steps in enumerate(step.parallel or ()):
            _check_list(steps, f"definition.steps.{place}.parallel.{branch}", meter)
    plain = definition.model_dump(mode="json", exclude_unset=True)
    check_size("definition", len(orjson.dumps(plain)), WORKFLOW_BYTES)
    return plain


def _check_ids(definition: WorkflowDefinition) -> None:
    seen: dict[str, str] = {}
    for path, step in _paths(definition):
        if step.id == END:
            raise _wrong(f"{path}.id", f"{END!r} is the end of a run, and no step")
        if step.id in seen:
            raise _wrong(f"{path}.id", f"{step.id!r} is the id of {seen[step.id]} as well")
        seen[step.id] = path


def _paths(definition: WorkflowDefinition) -> Iterator[tuple[str, BranchStep]]:
    for place, step in enumerate(definition.steps):
        path = f"definition.steps.{place}"
        yield path, step
        for branch, steps in enumerate(step.parallel or ()):
            yield from ((f"{path}.parallel.{branch}.{inner}", each) for inner, each in enumerate(steps))


def _check_list(steps: Sequence[BranchStep], path: str, meter: Meter) -> None:
    """Check a list of steps: all steps of the run itself, or one branch."""
    known = {step.id for step in steps}
    reached = {steps[0].id}
    for place, step in enumerate(steps):
        _check_kind(step, f"{path}.{place}")
        _check_conditions(step, f"{path}.{place}", meter)
        for field, target in _targets(step):
            if target != END and target not in known:
                meant = suggestion(target, [*known, END])
                raise _wrong(f"{path}.{place}.{field}", f"step {step.id!r} goes to {target!r}, no step here{meant}")
    targets = {step.id: _successors(step, following) for step, following in _with_next(steps)}
    new = [steps[0].id]
    while new:
        new = [found for found in dict.fromkeys(target for id in new for target in targets[id]) if found not in reached]
        reached.update(new)
    for place, step in enumerate(steps):
        if step.id not in reached:
            raise _wrong(f"{path}.{place}.id", f"step {step.id!r} cannot be reached")


def _check_kind(step: BranchStep, path: str) -> None:
    given = [name for name in KINDS if getattr(step, name, None) is not None]
    if len(given) > 1:
        raise _wrong(f"{path}.{given[1]}", f"step {step.id!r} has {given[0]} already")
    if given and given != ["run"]:
        for name in OF_TASKS:
            if getattr(step, name) is not None:
                raise _wrong(f"{path}.{name}", f"step {step.id!r} is no task, which alone has {name}")
    wait = step.wait
    if wait is None:
        return
    if (wait.signal is None) == (wait.change is None):
        raise _wrong(f"{path}.wait", f"step {step.id!r} waits for a signal or for a change, one of both")
    if wait.when is not None and wait.change is None:
        raise _wrong(f"{path}.wait.when", f"step {step.id!r} waits for a signal; a condition is for changes")
    if wait.on_timeout is not None and wait.timeout_seconds is None:
        raise _wrong(f"{path}.wait.on_timeout", f"step {step.id!r} waits without timeout_seconds")


def _check_conditions(step: BranchStep, path: str, meter: Meter) -> None:
    if step.when is not None:
        _check_condition(step, f"{path}.when", step.when, OF_WHEN, meter)
    if step.wait is not None and step.wait.when is not None:
        _check_condition(step, f"{path}.wait.when", step.wait.when, OF_CHANGE, meter)
    for place, target in enumerate(step.next or ()):
        if target.when is not None:
            _check_condition(step, f"{path}.next.{place}.when", target.when, OF_NEXT, meter)


def _check_condition(step: BranchStep, field: str, text: str, variables: tuple[str, ...], meter: Meter) -> None:
    try:
        excess = compiled(text, variables).excess(meter)
    except ValueError as error:
        raise _wrong(field, f"the condition of step {step.id!r}: {error}") from error
    if excess is not None:
        raise TooLarge(
            f"{field}: the condition of step {step.id!r} takes over {excess.limit} {excess.unit} whatever the state is",
            field=field,
            limit=excess.limit,
            actual=excess.actual,
            unit=excess.unit,
        )


def _check_change(step: BranchStep, field: str, change: Sequence[str], tenant: str) -> None:
    """Refuse what no subject of the feed can have."""
    entity, *parts = change
    if encode_token(entity) != entity:
        raise _wrong(f"{field}.0", f"{entity!r}, for which step {step.id!r} waits, is no entity of the feed")
    try:
        change_filters(tenant, change_prefix(entity, *parts) if parts else entity)
    except HiveError as error:
        raise _wrong(field, f"the address for which step {step.id!r} waits: {error.detail}") from error


def _targets(step: BranchStep) -> Iterator[tuple[str, str]]:
    for place, target in enumerate(step.next or ()):
        yield f"next.{place}.to", target.to
    if step.wait is not None and step.wait.on_timeout is not None:
        yield "wait.on_timeout", step.wait.on_timeout


def _successors(step: BranchStep, following: str | None) -> list[str]:
    """Return the steps that may come next; a target without a condition leaves nothing behind it to come."""
    always = any(target.when is None for target in step.next or ()) and step.when is None
    found = [target for _, target in _targets(step)] + ([] if always or following is None else [following])
    return [target for target in found if target != END]


def _wrong(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {why}", field=field)
