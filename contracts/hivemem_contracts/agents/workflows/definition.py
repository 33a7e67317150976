"""The definition of a workflow, as a document."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints

from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.identifiers import Id
from hivemem_contracts.limits import (
    RUN_STEPS,
    STEP_ID_CHARACTERS,
    STEP_SECONDS,
    WORKFLOW_BRANCHES,
    WORKFLOW_BYTES,
    WORKFLOW_STEPS,
)
from hivemem_contracts.model import RequestBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.patterns import STEP_ID
from hivemem_contracts.sessions.models import StateKey
from hivemem_contracts.sizes import MaxBytes

END: Final = "end"
"""The target that ends the run, or the branch."""

StepId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=STEP_ID_CHARACTERS, pattern=STEP_ID),
    NamedType(
        "StepId",
        f"The id of a step: 1 to {STEP_ID_CHARACTERS} letters, digits, `_`, `.` and `-`. `end` is no step: it ends the "
        "run, or the branch.",
    ),
]
Condition = Annotated[
    str,
    StringConstraints(min_length=1, max_length=1_024),
    NamedType("Condition", "A CEL expression that is true or not. One that has no value for its input is not."),
]
Seconds = Annotated[float, Field(gt=0, le=STEP_SECONDS)]
SignalName = Id


class StepTarget(RequestBody):
    """A step that may come next."""

    to: StepId = Field(description="The step, or `end`.")
    when: Condition | None = Field(
        default=None,
        description="Over `state`, `input`, `output` (of this step) and `signal` (the data that it waited for).",
    )


class RetryPolicy(RequestBody):
    """How often a failed step is tried, and the pauses between."""

    attempts: Annotated[int, Field(ge=1, le=1_000)] = Field(default=3, description="With the first one.")
    delay_seconds: Annotated[float, Field(ge=0, le=STEP_SECONDS)] = 1.0
    factor: Annotated[float, Field(ge=1, le=100)] = Field(default=2.0, description="By which each pause is longer.")
    max_delay_seconds: Annotated[float, Field(ge=0, le=STEP_SECONDS)] = 3_600.0


class StepWait(RequestBody):
    """What a step waits for: a signal to the run, or a change on the feed."""

    model_config = ConfigDict(
        json_schema_extra=refuses(
            combination(missing=["signal", "change"]),
            combination(given=["signal", "change"]),
            combination(given=["when"], missing=["change"]),
            combination(given=["on_timeout"], missing=["timeout_seconds"]),
        )
    )

    signal: SignalName | None = Field(default=None, description="The name of a signal, which `run_signal` sends.")
    change: Annotated[list[Id], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="The entity of a change and the first parts of its address."
    )
    when: Condition | None = Field(
        default=None, description="Over `change`, `state` and `input`: other changes are passed over."
    )
    timeout_seconds: Seconds | None = Field(default=None, description="The step fails when this time is over.")
    on_timeout: StepId | None = Field(default=None, description="The step that comes then, in place of the failure.")


KINDS: Final = ("run", "sleep_seconds", "wait", "parallel")
"""The fields that say what a step does; it has one of them at most."""

OF_TASKS: Final = ("retry", "timeout_seconds", "compensate")
"""The fields of a step that is a task."""


def _kinds_exclude_each_other(kinds: Sequence[str]) -> ConfigDict:
    pairs = [*itertools.combinations(kinds, 2), *((kind, name) for kind in kinds[1:] for name in OF_TASKS)]
    return ConfigDict(json_schema_extra=refuses(*(combination(given=pair) for pair in pairs)))


class BranchStep(RequestBody):
    """A step. Without `sleep_seconds` and `wait` it is a task, which a process claims and reports."""

    model_config = _kinds_exclude_each_other(KINDS[:3])

    id: StepId
    run: Id | None = Field(default=None, description="The handler of the task; the step's id if left out.")
    sleep_seconds: Seconds | None = Field(default=None, description="A timer, in place of a task.")
    wait: StepWait | None = Field(default=None, description="A signal or a change, in place of a task.")
    when: Condition | None = Field(
        default=None, description="Over `state` and `input`; the step is skipped unless this is true."
    )
    next: Annotated[list[StepTarget], Field(min_length=1, max_length=WORKFLOW_BRANCHES)] | None = Field(
        default=None, description="The first one whose condition is true comes next; else the following step."
    )
    save: StateKey | None = Field(default=None, description="The key of the state that gets the output.")
    retry: RetryPolicy | None = Field(default=None, description="One attempt, if left out.")
    timeout_seconds: Seconds | None = Field(default=None, description="The time limit of an attempt.")
    compensate: Id | None = Field(
        default=None, description="The handler that undoes the step if the run fails after it completed."
    )
    max_visits: Annotated[int, Field(ge=1, le=RUN_STEPS)] = Field(
        default=1_000, description="The run fails if it comes here more often."
    )

    @property
    def is_task(self) -> bool:
        return self.sleep_seconds is None and self.wait is None


class WorkflowStep(BranchStep):
    """A step of the run itself, which may have branches side by side."""

    model_config = _kinds_exclude_each_other(KINDS)

    parallel: (
        Annotated[
            list[Annotated[list[BranchStep], Field(min_length=1, max_length=WORKFLOW_STEPS)]],
            Field(min_length=1, max_length=WORKFLOW_BRANCHES),
        ]
        | None
    ) = Field(default=None, description="Branches, each with its own steps in order.")
    join: Literal["all", "any"] = Field(
        default="all", description="Wait for all branches, or for the first one, which cancels the others."
    )

    @property
    def is_task(self) -> bool:
        return self.parallel is None and super().is_task


class WorkflowDefinition(RequestBody):
    """Steps in order. A run begins at the first one and is completed behind the last one, or at `end`."""

    description: Annotated[str, StringConstraints(max_length=4_000)] | None = None
    steps: Annotated[list[WorkflowStep], Field(min_length=1, max_length=WORKFLOW_STEPS)]
    max_steps: Annotated[int, Field(ge=1, le=RUN_STEPS)] = Field(
        default=10_000, description="The run fails if it takes more steps."
    )


Definition = Annotated[WorkflowDefinition, MaxBytes(WORKFLOW_BYTES)]
