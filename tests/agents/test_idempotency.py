"""One idempotency key means one command, for each operation that writes."""

import pytest

from hivemem_contracts.agents.operations import AGENTS
from hivemem_contracts.agents.workflows.operations import OPERATIONS as WORKFLOW_OPERATIONS
from hivemem_testing.agent import Body
from hivemem_testing.idempotency import check_one_command, writes_of

from .conftest import Bot

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALPHA: Body = {"agent_id": "alpha"}
BETA: Body = {"agent_id": "beta"}
PROPOSED = ("complete", "abandon")
OWN_FIELDS: dict[str, Body] = {
    "set_status": {"status": "paused"},
    "propose": {"number": 1, "plan": "a"},
    "complete": {"number": 1, "outcome": "success"},
    "abandon": {"number": 1, "reason": "r"},
    "record": {"kind": "plan", "content": "c"},
    "prune": {"max_entries": 0},
}


async def bodies(bot: Bot, operation: str) -> tuple[Body, Body]:
    for agent in (ALPHA, BETA):
        await bot.registered(agent["agent_id"])
        await bot.ask("record", agent, kind="plan", content="old")
        if operation in ("propose", *PROPOSED):
            await bot.ask("cycle_begin", agent)
        if operation in PROPOSED:
            await bot.ask("propose", agent, number=1)
    if operation == "trace_import":
        one, two = [(await bot.ask("trace", agent))["items"] for agent in (ALPHA, BETA)]
        return {"items": one}, {"items": two}
    fields = OWN_FIELDS.get(operation, {})
    return {**ALPHA, **fields}, {**BETA, **fields}


OF_WORKFLOWS = {operation.name for operation in WORKFLOW_OPERATIONS}


@pytest.mark.parametrize("operation", [name for name in writes_of(AGENTS) if name not in OF_WORKFLOWS])
async def test_a_message_id_is_one_command(bot: Bot, operation: str) -> None:
    await check_one_command(bot, operation, lambda bot: bodies(bot, operation))
