"""One idempotency key means one command, for each operation of workflows that writes."""

import pytest

from hivemem_contracts.agents.workflows.operations import OPERATIONS
from hivemem_testing.agent import Body
from hivemem_testing.idempotency import check_one_command

from .conftest import Runner

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWN_FIELDS: dict[str, tuple[Body, Body]] = {
    "workflow_put": ({"name": "a", "definition": {"steps": [{"id": "x"}]}}, {"name": "b"}),
    "run_start": ({"name": "a", "input": 1}, {"name": "a", "input": 2}),
    "run_cancel": ({"run_id": "a"}, {"run_id": "b"}),
    "run_signal": ({"run_id": "a", "name": "go"}, {"run_id": "b", "name": "go"}),
    "run_retry": ({"run_id": "a"}, {"run_id": "b"}),
    "step_claim": ({"name": "a"}, {"name": "b"}),
    "step_report": ({}, {}),
    "step_renew": ({}, {}),
    "step_once": ({"key": "k", "result": 1}, {"key": "k", "result": 1}),
}


async def bodies(runner: Runner, operation: str) -> tuple[Body, Body]:
    found: list[Body] = []
    for name, fields in zip("ab", OWN_FIELDS[operation], strict=True):
        await runner.defined({"id": "one"}, name=name)
        await runner.ask("run_start", name=name, run_id=name)
        if operation == "run_retry":
            await runner.ask("run_cancel", run_id=name)
        if operation.startswith("step_") and operation != "step_claim":
            claimed = await runner.claim(name)
            named = ["run_id", "step", "token", *(["attempt"] if operation != "step_once" else [])]
            fields = {**fields, **{field: claimed[field] for field in named}}
        found.append({**OWN_FIELDS[operation][0], **fields})
    return found[0], found[1]


@pytest.mark.parametrize("operation", [operation.name for operation in OPERATIONS if operation.writes])
async def test_a_message_id_is_one_command(runner: Runner, operation: str) -> None:
    await check_one_command(runner, operation, lambda runner: bodies(runner, operation))
