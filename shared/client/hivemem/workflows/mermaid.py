"""Diagrams of definitions and runs, as Mermaid draws them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hivemem_contracts.agents.workflows.definition import END, BranchStep, WorkflowDefinition, WorkflowStep
from hivemem_contracts.agents.workflows.models import RunStep

COLOURS: Final = {
    "pending": "fill:#eeeeee,stroke:#888888",
    "running": "fill:#cfe2ff,stroke:#0d6efd",
    "waiting": "fill:#fff3cd,stroke:#b58900",
    "completed": "fill:#d1e7dd,stroke:#198754",
    "failed": "fill:#f8d7da,stroke:#dc3545",
    "cancelled": "fill:#e2e3e5,stroke:#6c757d",
    "skipped": "fill:#ffffff,stroke:#bbbbbb,stroke-dasharray:4",
}
_CONDITION_CHARACTERS: Final = 60


def definition_diagram(definition: WorkflowDefinition, run: Sequence[RunStep] = ()) -> str:
    """Return a diagram of the steps and the ways between them; the steps of a run are coloured by their status."""
    return "\n".join(_lines(definition, {step.id: step.status for step in run if step.kind != "compensation"})) + "\n"


def _lines(definition: WorkflowDefinition, statuses: Mapping[str, str]) -> Iterator[str]:
    yield "flowchart TD"
    yield f"    start([start]) --> {_node(definition.steps[0].id)}"
    yield from _steps(definition.steps, "finish", "    ")
    yield "    finish([end])"
    for status in dict.fromkeys(statuses.values()):
        nodes = ",".join(_node(id) for id, found in statuses.items() if found == status)
        yield f"    classDef {status} {COLOURS[status]}"
        yield f"    class {nodes} {status}"


def _steps(steps: Sequence[BranchStep], end: str, indent: str) -> Iterator[str]:
    for place, step in enumerate(steps):
        following = _node(steps[place + 1].id) if place + 1 < len(steps) else end
        yield f"{indent}{_shape(step)}"
        branches = (step.parallel or ()) if isinstance(step, WorkflowStep) else ()
        node = _node(step.id)
        for number, branch in enumerate(branches):
            yield f'{indent}subgraph {node}_{number}["{step.id} {number}"]'
            yield from _steps(branch, f"{node}_{number}_end", f"{indent}    ")
            yield f"{indent}    {node}_{number}_end(( ))"
            yield f"{indent}end"
            yield f"{indent}{node} -.-> {_node(branch[0].id)}"
        yield from (f"{indent}{line}" for line in _ways(step, following, end))


def _shape(step: BranchStep) -> str:
    node = _node(step.id)
    if isinstance(step, WorkflowStep) and step.parallel is not None:
        return f'{node}{{{{"{step.id}: {step.join} of {len(step.parallel)}"}}}}'
    if step.sleep_seconds is not None:
        return f'{node}[/"{step.id}: {step.sleep_seconds:g} s"/]'
    if step.wait is not None:
        awaited = step.wait.signal or ".".join(step.wait.change or ())
        return f'{node}[/"{step.id}: {_text(awaited)}"/]'
    handler = "" if step.run in (None, step.id) else f": {_text(step.run or '')}"
    return f'{node}["{step.id}{handler}"]'


def _ways(step: BranchStep, following: str, end: str) -> Iterator[str]:
    node = _node(step.id)
    for target in step.next or ():
        to = end if target.to == END else _node(target.to)
        condition = "" if target.when is None else f'|"{_text(target.when)}"|'
        yield f"{node} -->{condition} {to}"
    if step.wait is not None and step.wait.on_timeout is not None:
        to = end if step.wait.on_timeout == END else _node(step.wait.on_timeout)
        yield f'{node} -->|"after {step.wait.timeout_seconds:g} s"| {to}'
    if not any(target.when is None for target in step.next or ()):
        yield f"{node} --> {following}"
    if step.when is not None:
        yield f'{node} -.->|"unless {_text(step.when)}"| {following}'


def _node(id: str) -> str:
    """Return the name of a node; Mermaid has words of its own, so every name has a beginning of ours."""
    return "s_" + "".join(character if character.isalnum() else f"_{ord(character):x}_" for character in id)


def _text(text: str) -> str:
    short = text if len(text) <= _CONDITION_CHARACTERS else f"{text[:_CONDITION_CHARACTERS]}…"
    return "".join(f"#{ord(character)};" if character in '"#<>&;|' else character for character in short)
