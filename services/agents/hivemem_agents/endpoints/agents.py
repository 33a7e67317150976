"""The operations that define, read and list agents."""

from functools import partial
from typing import Any

from hivemem_agents.decisions.agents import agent_not_found, register_agent, set_agent_status
from hivemem_agents.entities.agents import AGENT, PROGRESS, AgentDefinition, Progress
from hivemem_contracts.agents import operations, requests
from hivemem_contracts.agents.replies import AgentWritten
from hivemem_contracts.identifiers import format_microseconds
from hivemem_runtime.ledger.port import Ledger, Outcome, Write, value_of
from hivemem_runtime.paging import Lines
from hivemem_runtime.service import Call, Service


def bind(service: Service) -> None:
    ledger = service.ledger
    service.command(operations.REGISTER, plan_register, partial(answer_written, ledger))
    service.command(operations.SET_STATUS, plan_set_status, partial(answer_written, ledger))
    service.handler(operations.GET, partial(get_agent, ledger))
    service.handler(operations.LIST, partial(list_agents, ledger))


def plan_register(call: Call, body: requests.RegisterAgent) -> Write:
    sender = call.sender.agent
    return call.write(AGENT, body.agent_id, lambda heads, now: register_agent(heads, body, sender, now))


def plan_set_status(call: Call, body: requests.SetAgentStatus) -> Write:
    return call.write(AGENT, body.agent_id, lambda heads, now: set_agent_status(heads, body.agent_id, body.status, now))


async def answer_written(
    ledger: Ledger, call: Call, body: requests.RegisterAgent | requests.SetAgentStatus, outcome: Outcome
) -> AgentWritten:
    definition: AgentDefinition | None = outcome.answer or outcome.record
    if definition is None:  # a duplicate of a request that changed nothing
        definition = value_of(await ledger.head(AGENT, call.sender.tenant, body.agent_id))
        assert definition is not None, "an agent is never erased"
    progress = value_of(await ledger.head(PROGRESS, call.sender.tenant, body.agent_id))
    return AgentWritten.model_validate(
        {**agent_fields(body.agent_id, definition, progress), "duplicate": outcome.duplicate}
    )


async def get_agent(ledger: Ledger, call: Call, body: requests.GetAgent) -> AgentWritten:
    return AgentWritten.model_validate(await read_agent(ledger, call.sender.tenant, body.agent_id))


async def list_agents(ledger: Ledger, call: Call, body: requests.ListAgents) -> bytes:
    tenant = call.sender.tenant
    index, equals = ("all", {}) if body.status is None else ("status", {"status": body.status})
    lines = Lines(body.limit)
    cursor = body.cursor
    while not lines.complete:
        page = await ledger.find(AGENT, tenant, index, equals=equals, cursor=cursor, limit=lines.wanted())
        progress = await ledger.heads(PROGRESS, tenant, [head.id for head in page.items])
        found = [(head.id, head.value) for head in page.items if head.value is not None]
        taken = [lines.add(agent_fields(id, value, value_of(progress.get(id)))) for id, value in found]
        if not all(taken):
            # Read the part that fitted once more, for the cursor behind it.
            page = await ledger.find(AGENT, tenant, index, equals=equals, cursor=cursor, limit=sum(taken))
        cursor = page.cursor
        if cursor is None:
            break
    return lines.answer(cursor)


async def read_agent(ledger: Ledger, tenant: str, agent_id: str) -> dict[str, Any]:
    """Return the wire format of an agent. Raises `NotFound`."""
    definition = await find_definition(ledger, tenant, agent_id)
    return agent_fields(agent_id, definition, value_of(await ledger.head(PROGRESS, tenant, agent_id)))


async def find_definition(ledger: Ledger, tenant: str, agent_id: str) -> AgentDefinition:
    definition = value_of(await ledger.head(AGENT, tenant, agent_id))
    if definition is None:
        raise agent_not_found(agent_id)
    return definition


def agent_fields(agent_id: str, definition: AgentDefinition, progress: Progress | None) -> dict[str, Any]:
    """Return the wire format of an agent."""
    progress = progress or Progress()
    return {
        **definition_fields(agent_id, definition),
        "cycles": progress.cycles,
        "open_cycle": progress.open_cycle,
    }


def definition_fields(agent_id: str, definition: AgentDefinition) -> dict[str, Any]:
    """Return the wire format of an agent without its progress."""
    return {
        "agent_id": agent_id,
        "name": definition.name,
        "directives": definition.directives,
        "overrides": definition.overrides,
        "metadata": definition.metadata,
        "status": definition.status,
        "version": definition.version,
        "created_by": definition.created_by,
        "created_at": format_microseconds(definition.created_at),
        "updated_at": format_microseconds(definition.updated_at),
    }
