"""Runs and claimed steps in the wire format."""

from collections.abc import Sequence
from typing import Any

import orjson

from hivemem_agents.workflows.decisions.steps import Taken
from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_agents.workflows.entities import STEP, RunHead, run_fields, step_fields, step_place
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.paging import READ_AT_ONCE, Bookmark, Lines


async def run_view(
    settling: Settling, tenant: str, run_id: str, run: RunHead, *, limit: int, cursor: str | None = None
) -> dict[str, Any]:
    """Return a run with its newest steps, or with the newest ones before a cursor."""
    bookmark = Bookmark("run", run_id)
    before = run.steps + 1
    if cursor is not None:
        (before,) = bookmark.find(cursor, int)
        if not 1 <= before <= run.steps + 1:
            raise InvalidRequest("cursor: it belongs to another list", field="cursor")
    facts = await settling.plans.facts(tenant, run_id)
    view = await settling.sessions.view(tenant, facts)
    state = run.state if run.session_id is None else view.state
    shown = {**run_fields(run_id, run), "input": run.input, "state": state}
    lines = Lines(limit, room=REPLY_BYTES - len(orjson.dumps(shown)))
    oldest = await _steps_before(settling.ledger, tenant, run_id, before, lines)
    return {**shown, "steps": lines.items[::-1], "cursor": bookmark.put(oldest) if oldest > 1 else None}


async def _steps_before(ledger: Ledger, tenant: str, run_id: str, before: int, lines: Lines) -> int:
    """Add the steps before a number, the newest first; return the number of the last one that had room."""
    while before > 1 and not lines.complete:
        count = min(lines.wanted(), READ_AT_ONCE)
        numbers = range(before - 1, max(before - 1 - count, 0), -1)
        places = [step_place(run_id, number) for number in numbers]
        found = await current_values(ledger, STEP, tenant, places)
        for place, number in zip(places, numbers, strict=True):
            if not lines.add(step_fields(found[place])):
                return before
            before = number
    return before


async def claimed_views(settling: Settling, tenant: str, some: Sequence[Taken]) -> list[dict[str, Any]]:
    """Return claimed steps with the state of their runs."""
    states: dict[str, dict[str, Any]] = {}
    for one in some:
        if one.run.session_id is not None and one.step.run_id not in states:
            facts = await settling.plans.facts(tenant, one.step.run_id)
            states[one.step.run_id] = (await settling.sessions.view(tenant, facts)).state or {}
    return [claimed_view(one, states.get(one.step.run_id, one.run.state)) for one in some]


def claimed_view(one: Taken, state: dict[str, Any]) -> dict[str, Any]:
    step = one.step
    return {
        "run_id": step.run_id,
        "step": step.id,
        "name": step.name,
        "number": step.number,
        "kind": step.kind,
        "input": one.run.input,
        "state": state,
        "output": None if one.undone is None else one.undone.output,
        "attempt": step.attempt,
        "token": step.token,
        "until": None if step.until is None else format_microseconds(step.until),
    }
