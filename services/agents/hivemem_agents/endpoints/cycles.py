"""The operations on cycles: the four steps, and what reads them."""

from functools import partial
from typing import Any

import orjson

from hivemem_agents.decisions import cycles as rules
from hivemem_agents.endpoints.agents import find_definition, read_agent
from hivemem_agents.entities.agents import AGENT, PROGRESS
from hivemem_agents.entities.cycles import CYCLE, CycleRecord, cycle_fields, cycle_id
from hivemem_contracts.agents import operations, requests
from hivemem_contracts.agents.replies import CycleWritten
from hivemem_runtime.ledger.port import Ledger, Outcome, Write, value_of
from hivemem_runtime.paging import Bookmark, Lines
from hivemem_runtime.service import Call, Service

_NEXT_STEP = {"begun": "propose", "proposed": "act"}


def bind(service: Service) -> None:
    ledger = service.ledger
    service.command(operations.CYCLE_BEGIN, plan_begin, answer_cycle)
    service.command(operations.PROPOSE, plan_propose, answer_cycle)
    service.command(operations.COMPLETE, plan_complete, answer_cycle)
    service.command(operations.ABANDON, plan_abandon, answer_cycle)
    service.handler(operations.RESUME, partial(resume, ledger))
    service.handler(operations.CYCLE, partial(get_cycle, ledger))
    service.handler(operations.CYCLES, partial(list_cycles, ledger))


def plan_begin(call: Call, body: requests.BeginCycle) -> Write:
    sender = call.sender.agent
    reads = ((AGENT, body.agent_id),)
    return call.write(PROGRESS, body.agent_id, lambda heads, now: rules.begin_cycle(heads, body, sender, now), reads)


def plan_propose(call: Call, body: requests.ProposeCycle) -> Write:
    sender = call.sender.agent
    reads = rules.reads_of(body.agent_id, body.number)
    return call.write(PROGRESS, body.agent_id, lambda heads, now: rules.propose(heads, body, sender, now), reads)


def plan_complete(call: Call, body: requests.CompleteCycle) -> Write:
    sender = call.sender.agent
    reads = rules.reads_of(body.agent_id, body.number)
    return call.write(PROGRESS, body.agent_id, lambda heads, now: rules.complete(heads, body, sender, now), reads)


def plan_abandon(call: Call, body: requests.AbandonCycle) -> Write:
    reads = rules.reads_of(body.agent_id, body.number)
    return call.write(PROGRESS, body.agent_id, lambda heads, now: rules.abandon(heads, body, now), reads)


def answer_cycle(call: Call, body: Any, outcome: Outcome) -> CycleWritten:
    return CycleWritten.model_validate({**cycle_fields(outcome.record), "duplicate": outcome.duplicate})


async def resume(ledger: Ledger, call: Call, body: requests.ResumeAgent) -> bytes:
    tenant = call.sender.tenant
    agent = await read_agent(ledger, tenant, body.agent_id)
    cycle = None
    if agent["open_cycle"] is not None:
        cycle = await find_cycle(ledger, tenant, body.agent_id, agent["open_cycle"])
    step = "begin" if cycle is None else _NEXT_STEP.get(cycle.status, "begin")
    open_cycle = None if cycle is None or step == "begin" else cycle_fields(cycle)
    return orjson.dumps({"agent": agent, "cycle": open_cycle, "step": step})


async def get_cycle(ledger: Ledger, call: Call, body: requests.ReadCycle) -> bytes:
    return orjson.dumps(cycle_fields(await find_cycle(ledger, call.sender.tenant, body.agent_id, body.number)))


async def find_cycle(ledger: Ledger, tenant: str, agent_id: str, number: int) -> CycleRecord:
    """Return a cycle. Raises `NotFound`."""
    cycle = value_of(await ledger.head(CYCLE, tenant, cycle_id(agent_id, number)))
    if cycle is None:
        await find_definition(ledger, tenant, agent_id)
        raise rules.cycle_not_found(agent_id, number)
    return cycle


async def list_cycles(ledger: Ledger, call: Call, body: requests.ListCycles) -> bytes:
    tenant = call.sender.tenant
    bookmark = Bookmark("cycles", body.agent_id, body.status, body.after, body.before, body.reverse)
    low, high = (body.after or 0) + 1, body.before
    if body.cursor is not None:
        (number,) = bookmark.find(body.cursor, int)
        low, high = (low, number) if body.reverse else (number + 1, high)
    else:
        await find_definition(ledger, tenant, body.agent_id)
    index, equals = "agent", {"agent_id": body.agent_id}
    if body.status is not None:
        index, equals = "agent_status", {**equals, "status": body.status}
    lines = Lines(body.limit)
    cursor: str | None = None
    while True:
        page = await ledger.find(
            CYCLE, tenant, index, equals=equals, low=low, high=high, reverse=body.reverse, limit=lines.wanted()
        )
        last = None
        for head in page.items:
            assert head.value is not None, "a cycle is never erased"
            if not lines.add(cycle_fields(head.value)):
                return lines.answer(cursor)
            last = head.value.number
            cursor = bookmark.put(last)
        if page.cursor is None or last is None:
            return lines.answer(None)
        if lines.complete:
            return lines.answer(cursor)
        low, high = (low, last) if body.reverse else (last + 1, high)
