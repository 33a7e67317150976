"""The rules of cycles: one is open at a time, with one proposal and then one result, under the newest lease."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from hivemem_agents.decisions.agents import require_agent
from hivemem_agents.entities.agents import PROGRESS, Progress
from hivemem_agents.entities.cycles import CYCLE, OPEN, CycleRecord, cycle_id
from hivemem_contracts.agents.requests import AbandonCycle, BeginCycle, CompleteCycle, ProposeCycle
from hivemem_contracts.errors import IllegalTransition, InvalidRequest, LeaseHeld, NotFound
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.limits import AGENT_BYTES
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.model import RequestBody
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of

PROPOSAL: Final = ("thoughts", "reasoning", "plan", "tool", "workspace")
RESULT: Final = ("outcome", "output", "error", "artifacts")
_ENDED_AS: Final = {"success": "completed", "failure": "failed", "interrupted": "failed"}
_NEXT: Final = {"begun": ["propose", "abandon"], "proposed": ["complete", "abandon"]}


def begin_cycle(heads: Heads, body: BeginCycle, sender: str, now: int) -> Decision:
    agent = require_agent(heads, body.agent_id)
    if agent.status != "active":
        raise IllegalTransition(
            f"agent {body.agent_id!r} is {agent.status}: only an active agent begins a cycle",
            status=agent.status,
            allowed=[],
        )
    progress = progress_of(heads, body.agent_id)
    lease = _newest_lease(progress, body.lease, body.agent_id)
    if progress.open_cycle is not None:
        raise IllegalTransition(
            f"agent {body.agent_id!r} has not ended cycle {progress.open_cycle}: complete or abandon it first",
            open_cycle=progress.open_cycle,
            allowed=["propose", "complete", "abandon"],
        )
    number = progress.cycles + 1
    cycle = CycleRecord(body.agent_id, number, "begun", body.session_id, None, None, None, sender, now, now)
    return [
        Append(CYCLE, cycle_id(body.agent_id, number), cycle),
        Append(PROGRESS, body.agent_id, Progress(number, number, lease)),
    ]


def propose(heads: Heads, body: ProposeCycle, sender: str, now: int) -> Decision:
    cycle = _open_cycle(heads, body.agent_id, body.number, "begun", "propose")
    proposal = _step("proposal", body, PROPOSAL, sender, now)
    written = replace(cycle, status="proposed", proposal=proposal, updated_at=now)
    return _written(heads, written, body.lease)


def complete(heads: Heads, body: CompleteCycle, sender: str, now: int) -> Decision:
    cycle = _open_cycle(heads, body.agent_id, body.number, "proposed", "complete")
    result = _step("result", body, RESULT, sender, now)
    result["artifacts"] = result["artifacts"] or []
    written = replace(cycle, status=_ENDED_AS[body.outcome], result=result, updated_at=now)
    return _written(heads, written, body.lease)


def abandon(heads: Heads, body: AbandonCycle, now: int) -> Decision:
    cycle = _open_cycle(heads, body.agent_id, body.number, None, "abandon")
    return _written(heads, replace(cycle, status="abandoned", reason=body.reason, updated_at=now), body.lease)


def progress_of(heads: Heads, agent_id: str) -> Progress:
    return value_of(heads(PROGRESS, agent_id)) or Progress()


def reads_of(agent_id: str, number: int) -> Sequence[tuple[AnyEntity, str]]:
    """Return the heads that a step of a cycle reads beside its progress."""
    return ((CYCLE, cycle_id(agent_id, number)),)


def cycle_not_found(agent_id: str, number: int) -> NotFound:
    return NotFound(f"agent {agent_id!r} has no cycle {number}", agent_id=agent_id, number=number)


def _open_cycle(heads: Heads, agent_id: str, number: int, status: str | None, step: str) -> CycleRecord:
    cycle = value_of(heads(CYCLE, cycle_id(agent_id, number)))
    if cycle is None:
        require_agent(heads, agent_id)
        raise cycle_not_found(agent_id, number)
    if cycle.status not in OPEN if status is None else cycle.status != status:
        allowed = _NEXT.get(cycle.status, [])
        raise IllegalTransition(
            f"cycle {number} of agent {agent_id!r} is {cycle.status}: {step} is refused, "
            f"it allows {' and '.join(allowed) or 'nothing more'}",
            status=cycle.status,
            allowed=allowed,
        )
    return cycle


def _step(name: str, body: RequestBody, fields: Sequence[str], sender: str, now: int) -> dict[str, Any]:
    """Return the wire format of a proposal or a result."""
    said = body.model_dump(mode="json", by_alias=True, include=set(fields))
    check_size(name, len(orjson.dumps(said)), AGENT_BYTES)
    return {**said, "by": sender, "at": format_microseconds(now)}


def _written(heads: Heads, cycle: CycleRecord, claim: LeaseClaim | None) -> Decision:
    progress = progress_of(heads, cycle.agent_id)
    lease = _newest_lease(progress, claim, cycle.agent_id)
    appends: list[Append[Any, Any]] = [Append(CYCLE, cycle_id(cycle.agent_id, cycle.number), cycle)]
    after = Progress(progress.cycles, cycle.number if cycle.status in OPEN else None, lease)
    if after != progress:
        appends.append(Append(PROGRESS, cycle.agent_id, after))
    return appends


def _newest_lease(progress: Progress, claim: LeaseClaim | None, agent_id: str) -> dict[str, Any] | None:
    """Return the newest lease after a request. Raises `LeaseHeld` for a claim that a later holder has overtaken."""
    held = progress.lease
    if claim is None:
        return held
    claimed = {"namespace": claim.namespace, "key": claim.key, "token": claim.token}
    if held is None:
        return claimed
    if (held["namespace"], held["key"]) != (claim.namespace, claim.key):
        if progress.open_cycle is not None:
            raise InvalidRequest(
                f"lease: cycle {progress.open_cycle} of agent {agent_id!r} runs under the lease on "
                f"{held['namespace']!r}, not on {claim.namespace!r}",
                field="lease",
            )
        return claimed
    if claim.token < held["token"]:
        raise LeaseHeld(
            f"lease: agent {agent_id!r} runs under token {held['token']}, token {claim.token} is outdated",
            token=held["token"],
        )
    return claimed
