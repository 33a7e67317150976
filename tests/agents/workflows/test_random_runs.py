"""Random definitions, carried out by the rules and by the model."""

from random import Random
from typing import Any

import pytest

from hivemem_agents.workflows.decisions import runs, steps
from hivemem_agents.workflows.decisions.definitions import Plan
from hivemem_agents.workflows.decisions.steps import Claim
from hivemem_agents.workflows.entities import ENDED, RUN, STEP, RunHead, StepExecution, step_place
from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.agents.workflows.requests import ReportStep, StartRun
from hivemem_runtime.ledger.entity import Entity, HeadT, RecordT
from hivemem_runtime.ledger.port import Head, appends_and_answer

from .run_model import RunModel, random_definition

CLAIM = Claim("bot", "bot|1", 1_000)


class Heads:
    """The newest heads, as a ledger would show them."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], Head[Any]] = {}

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        return self._heads.get((entity.name, id))

    def apply(self, decided: Any) -> None:
        for append in appends_and_answer(decided)[0]:
            key = (append.entity.name, append.id)
            version = self._heads[key].version + 1 if key in self._heads else 1
            self._heads[key] = Head(append.id, version, version, append.record)

    @property
    def run(self) -> RunHead:
        head = self(RUN, "r")
        assert head is not None
        assert head.value is not None
        return head.value

    def pending(self) -> list[StepExecution]:
        heads = [self(STEP, step_place("r", number)) for number in self.run.active]
        found = [head.value for head in heads if head is not None and head.value is not None]
        return sorted((step for step in found if step.status == "pending"), key=lambda step: step.number)


class Driver:
    """Claims and reports steps one at a time."""

    def __init__(self, definition: list[dict[str, Any]], input: Any = None) -> None:
        self.plan = Plan(WorkflowDefinition.model_validate({"steps": definition}))
        self.heads = Heads()
        body = StartRun(name="w", input=input)
        self.heads.apply(runs.start_run(self.heads, body, "r", self.plan, 1, "bot", 1, state=None, feed=None))

    def do(self, step: StepExecution, **result: Any) -> None:
        self.heads.apply(steps.claim_steps(self.heads, [step.place], CLAIM, 1))
        body = ReportStep(run_id="r", step=step.id, attempt=1, token=step.number * 1_000_000 + 1, **result)
        self.heads.apply(steps.report_step(self.heads, body, self.plan, CLAIM, 1, None))


def test_a_condition_that_costs_too_much_fails_its_step() -> None:
    condition = "!input.all(a, input.all(b, input.all(c, true)))"
    driver = Driver([{"id": "a", "save": "x"}, {"id": "b", "when": condition}], input=list(range(100)))
    driver.do(*driver.heads.pending(), output=1)
    last = driver.heads(STEP, step_place("r", 2))
    assert last is not None
    assert last.value is not None
    assert (last.value.status, last.value.error["name"]) == ("failed", "TooLarge")
    assert driver.heads.run.status == "failed"


def test_a_claim_takes_what_an_answer_has_room_for() -> None:
    branches = [[{"id": f"a{number}"}] for number in range(5)]
    driver = Driver([{"id": "p", "parallel": branches}], input="x" * 250_000)
    places = [step.place for step in driver.heads.pending()]
    assert len(steps.claim_steps(driver.heads, places, CLAIM, 1).answer) == 3


def test_a_long_chain_of_steps_that_are_skipped_at_once() -> None:
    skipped: list[dict[str, Any]] = [
        {"id": f"p{number}", "parallel": [[{"id": f"s{number}", "when": "false"}]]} for number in range(499)
    ]
    heads = Driver([*skipped, {"id": "last"}]).heads
    assert [step.number for step in heads.pending()] == [999]
    endless = Driver([{**skipped[0], "next": [{"to": "p0"}]}]).heads.run
    assert endless.status == "failed"
    assert endless.error is not None
    assert endless.error["error"]["name"] == "StepLimit"


@pytest.mark.parametrize("seed", range(400))
def test_random_definitions_run_as_the_model_says(seed: int) -> None:
    random = Random(seed)
    definition = random_definition(random)
    driver, model = Driver(definition), RunModel(definition)
    fails_at = random.choice([None, None, random.randint(1, 6)])
    for turn in range(200):
        pending = driver.heads.pending()
        if driver.heads.run.compensating or driver.heads.run.status in ENDED:
            break
        assert sorted((step.id, step.visit) for step in pending) == sorted(model.pending)
        chosen = random.choice(pending)
        if turn == fails_at:
            driver.do(chosen, error="no")
            model.fail()
        else:
            output = random.randint(0, 2)
            driver.do(chosen, output=output)
            model.do((chosen.id, chosen.visit), output)
    undone: list[str] = []
    while driver.heads.run.compensating:
        (chosen,) = driver.heads.pending()
        undone.append(chosen.name)
        driver.do(chosen)
    assert driver.heads.run.status == model.status
    assert driver.heads.run.state == model.state
    if model.status == "compensated":
        assert undone == [name for name, _ in reversed(model.undo)]
