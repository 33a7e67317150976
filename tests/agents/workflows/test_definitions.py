"""Definitions: which documents are workflows."""

from typing import Any

import pytest

from hivemem_agents.workflows.decisions.definitions import Plan, checked_definition
from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.errors import InvalidRequest

Step = dict[str, Any]


def definition(*steps: Step) -> WorkflowDefinition:
    return WorkflowDefinition.model_validate({"steps": list(steps)})


WRONG: list[tuple[list[Step], str, str]] = [
    ([{"id": "a"}, {"id": "a"}], "definition.steps.1.id", "'a' is the id of definition.steps.0"),
    ([{"id": "end"}], "definition.steps.0.id", "no step"),
    ([{"id": "pay", "next": [{"to": "pai"}]}], "definition.steps.0.next.0.to", "did you mean 'pay'"),
    (
        [{"id": "a", "next": [{"to": "c"}]}, {"id": "b"}, {"id": "c"}],
        "definition.steps.1.id",
        "'b' cannot be reached",
    ),
    ([{"id": "a", "when": "state."}], "definition.steps.0.when", "condition of step 'a'"),
    ([{"id": "a", "next": [{"to": "end", "when": "stat.x"}]}], "definition.steps.0.next.0.when", "step 'a'"),
    ([{"id": "a", "run": "x", "sleep_seconds": 1}], "definition.steps.0.sleep_seconds", "'a' has run already"),
    ([{"id": "a", "sleep_seconds": 1, "retry": {}}], "definition.steps.0.retry", "no task"),
    ([{"id": "a", "wait": {}}], "definition.steps.0.wait", "a signal or for a change"),
    (
        [{"id": "p", "parallel": [[{"id": "a"}, {"id": "p"}]]}],
        "definition.steps.0.parallel.0.1.id",
        "'p' is the id",
    ),
    (
        [{"id": "p", "parallel": [[{"id": "a", "next": [{"to": "b"}]}], [{"id": "b"}]]}],
        "definition.steps.0.parallel.0.0.next.0.to",
        "no step here",
    ),
    (
        [{"id": "a", "wait": {"signal": "s", "timeout_seconds": 1, "on_timeout": "x"}}],
        "definition.steps.0.wait.on_timeout",
        "goes to 'x'",
    ),
    ([{"id": "a", "wait": {"change": [">"]}}], "definition.steps.0.wait.change.0", "'>', for which step 'a' waits"),
    ([{"id": "a", "wait": {"change": ["memory.app"]}}], "definition.steps.0.wait.change.0", "no entity of the feed"),
    ([{"id": "a", "wait": {"change": ["x" * 256] * 20}}], "definition.steps.0.wait.change", "3500 at most"),
]


@pytest.mark.parametrize(("steps", "field", "said"), WRONG)
def test_a_wrong_definition_is_refused_by_step_and_field(steps: list[Step], field: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        checked_definition(definition(*steps), "acme")
    assert caught.value.context["field"] == field
    assert said in caught.value.detail


def test_a_definition_is_kept_as_it_was_sent() -> None:
    steps: list[Step] = [
        {"id": "a", "next": [{"to": "c", "when": "state.x"}]},
        {"id": "b", "parallel": [[{"id": "b1"}]]},
        {"id": "c"},
    ]
    found = definition(*steps)
    assert checked_definition(found, "acme") == {"steps": steps}
    planned = Plan(found).steps
    assert {id: (step.following, step.top) for id, step in planned.items()} == {
        "a": ("b", "a"),
        "b": ("c", "b"),
        "b1": (None, "b"),
        "c": (None, "c"),
    }
