"""The rules of agents: their definition and their status."""

from dataclasses import replace
from typing import Any, Final

import orjson

from hivemem_agents.entities.agents import AGENT, AgentDefinition
from hivemem_contracts.agents.requests import RegisterAgent
from hivemem_contracts.errors import IllegalTransition, NotFound, RevisionConflict
from hivemem_contracts.limits import AGENT_BYTES
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Append, Decided, Heads, value_of

TRANSITIONS: Final[dict[str, tuple[str, ...]]] = {
    "active": ("paused", "retired"),
    "paused": ("active", "retired"),
    "retired": (),
}
DEFINED: Final = ("name", "directives", "overrides", "metadata")
_EMPTY: Final[dict[str, Any]] = {"name": None, "directives": None, "overrides": {}, "metadata": {}}


def agent_not_found(agent_id: str) -> NotFound:
    return NotFound(f"agent {agent_id!r} is not registered", agent_id=agent_id)


def require_agent(heads: Heads, agent_id: str) -> AgentDefinition:
    agent = value_of(heads(AGENT, agent_id))
    if agent is None:
        raise agent_not_found(agent_id)
    return agent


def register_agent(heads: Heads, body: RegisterAgent, sender: str, now: int) -> Decided:
    """Define an agent. A request that changes nothing appends nothing: agents register at each of their starts."""
    agent = value_of(heads(AGENT, body.agent_id))
    actual = 0 if agent is None else agent.version
    if body.expect_version is not None and body.expect_version != actual:
        raise RevisionConflict(
            f"agent {body.agent_id!r} is at version {actual}, {body.expect_version} was expected",
            expected=body.expect_version,
            actual=actual,
        )
    given: dict[str, Any] = {name: _given(body, name) for name in DEFINED if name in body.model_fields_set}
    if agent is None:
        fields = {**_EMPTY, **given}
        written = AgentDefinition(
            "registered", 1, **fields, status="active", created_by=sender, created_at=now, updated_at=now
        )
    else:
        same: dict[str, Any] = {name: getattr(agent, name) for name in DEFINED}
        fields = {**same, **given}
        if fields == same:
            return Decided((), agent)
        written = replace(agent, **fields, operation="registered", version=agent.version + 1, updated_at=now)
    check_size("definition", len(orjson.dumps(fields)), AGENT_BYTES)
    return Decided([Append(AGENT, body.agent_id, written)], written)


def set_agent_status(heads: Heads, agent_id: str, status: str, now: int) -> Decided:
    agent = require_agent(heads, agent_id)
    if agent.status == status:
        return Decided((), agent)
    allowed = TRANSITIONS[agent.status]
    if status not in allowed:
        raise IllegalTransition(
            f"agent {agent_id!r} is {agent.status}, which is final", status=agent.status, allowed=list(allowed)
        )
    written = replace(agent, operation="status_changed", status=status, version=agent.version + 1, updated_at=now)
    return Decided([Append(AGENT, agent_id, written)], written)


def _given(body: RegisterAgent, name: str) -> Any:
    value = getattr(body, name)
    return _EMPTY[name] if value is None else value
