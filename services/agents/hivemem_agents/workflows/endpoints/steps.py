"""The operations on steps: claims, reports, renewals and results of side effects."""

from functools import partial
from typing import Any

import orjson

from hivemem_agents.workflows.decisions import steps as rules
from hivemem_agents.workflows.decisions.runs import run_not_found
from hivemem_agents.workflows.decisions.steps import Claim, Taken
from hivemem_agents.workflows.endpoints.claim_queues import ClaimQueues, PendingClaim
from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_agents.workflows.endpoints.wire_format import claimed_views
from hivemem_agents.workflows.entities import (
    ONCE,
    RUN,
    STEP,
    OnceResult,
    RunHead,
    StepExecution,
    once_place,
    step_place,
)
from hivemem_contracts.agents import operations
from hivemem_contracts.agents.workflows import requests
from hivemem_contracts.agents.workflows.replies import OnceRecorded, StepRenewed
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Ledger, Outcome, value_of
from hivemem_runtime.service import Call, Service, earlier_outcome

_FIELDS = ("run_id", "step", "name", "number", "kind", "input", "state", "output", "attempt", "token", "until")
_NOTHING: dict[str, Any] = dict.fromkeys(_FIELDS)


def bind(service: Service, settling: Settling, queues: ClaimQueues) -> None:
    service.handler(operations.STEP_CLAIM, partial(claim, settling, queues))
    service.handler(operations.STEP_REPORT, partial(report, settling))
    service.handler(operations.STEP_RENEW, partial(renew, service.ledger))
    service.handler(operations.STEP_ONCE, partial(once, service.ledger))


async def claim(settling: Settling, queues: ClaimQueues, call: Call, body: requests.ClaimSteps) -> bytes:
    tenant = call.sender.tenant
    await settling.plans.require(tenant, body.name)
    if body.run_id is not None:
        await settling.plans.facts(tenant, body.run_id)
    until = elapsed_seconds() + body.wait_ms / 1_000
    waiting = PendingClaim(call, _claim_of(call, body.lease, body.handlers), body.limit, until, body.run_id)
    outcome = await queues.take(body.name, waiting)
    if outcome is None:
        # The claim may have been made before, by a request whose answer was lost.
        outcome = await earlier_outcome(settling.ledger, call, STEP, "")
    found = await _found(settling.ledger, tenant, waiting.claim, outcome)
    items = await claimed_views(settling, tenant, found)
    run = None if body.run_id is None else value_of(await settling.ledger.head(RUN, tenant, body.run_id))
    answer = {
        **(items[0] if items else _NOTHING),
        "items": items,
        "run_status": None if run is None else run.status,
        "duplicate": outcome is not None and outcome.duplicate,
    }
    return orjson.dumps(answer)


async def report(settling: Settling, call: Call, body: requests.ReportStep) -> bytes:
    tenant, run_id, number = call.sender.tenant, body.run_id, rules.number_of(body.token)
    facts, plan = await settling.plans.of_run(tenant, run_id)
    feed = await settling.plans.feed(plan)
    claim = _claim_of(call, body.lease, body.handlers)
    place = step_place(run_id, number)
    outcome = await settling.ledger.commit(
        call.write(
            RUN,
            run_id,
            lambda heads, now: rules.report_step(heads, body, plan, claim, now, feed),
            ((STEP, place),),
        )
    )
    answer = outcome.answer
    if answer is None or answer[3] or facts.session_id is not None:
        settled = await settling.settle(tenant, run_id, number, claim if body.claim_next else None)
        answer = settled or answer
        if answer is None or answer[3]:
            answer = await _reported(settling.ledger, tenant, place, claim)
    step, run, following, again = answer
    views = await claimed_views(settling, tenant, [] if following is None else [following])
    return orjson.dumps(
        {
            "run_id": run_id,
            "step": step.id,
            "number": number,
            "attempt": body.attempt,
            "status": step.status,
            "run_status": run.status,
            "next": views[0] if views else None,
            "duplicate": outcome.duplicate or again,
        }
    )


async def renew(ledger: Ledger, call: Call, body: requests.RenewStep) -> StepRenewed:
    place = step_place(body.run_id, rules.number_of(body.token))
    write = call.write(STEP, place, lambda heads, now: rules.renew_step(heads, body, now), ((RUN, body.run_id),))
    outcome = await ledger.commit(write)
    step: StepExecution | None = outcome.record
    if step is None:
        step = value_of(await ledger.head(STEP, call.sender.tenant, place))
        assert step is not None, "a step is never erased"
    until = time_from_microseconds(step.until or step.finished_at or step.created_at)
    return StepRenewed(
        run_id=body.run_id,
        step=body.step,
        attempt=body.attempt,
        token=body.token,
        until=until,
        duplicate=outcome.duplicate,
    )


async def once(ledger: Ledger, call: Call, body: requests.RecordOnce) -> OnceRecorded:
    number = rules.number_of(body.token)
    place = once_place(body.run_id, number, body.key)
    reads = ((STEP, step_place(body.run_id, number)), (RUN, body.run_id))
    outcome = await ledger.commit(call.write(ONCE, place, lambda heads, now: rules.record_once(heads, body), reads))
    known: OnceResult | None = outcome.answer
    if outcome.duplicate:
        known = value_of(await ledger.head(ONCE, call.sender.tenant, place))
    result = None if known is None else known.result
    return OnceRecorded(recorded=known is not None, result=result, duplicate=outcome.duplicate)


def _claim_of(call: Call, lease_ms: int, handlers: list[str] | None) -> Claim:
    agent = call.sender.agent
    wanted = None if handlers is None else frozenset(handlers)
    return Claim(agent, f"{agent}|{call.message_id}", lease_ms * 1_000, wanted)


async def _found(ledger: Ledger, tenant: str, claim: Claim, outcome: Outcome | None) -> list[Taken]:
    """Return the claimed steps; for a repeated claim, the steps that it still has."""
    if outcome is None:
        return []
    if outcome.answer is not None:
        taken: list[Taken] = outcome.answer
        return taken
    if outcome.stamp is None:
        return []
    first = value_of(await ledger.head(STEP, tenant, outcome.stamp.id))
    places = [outcome.stamp.id] if first is None or first.batch is None else first.batch
    found = await current_values(ledger, STEP, tenant, places)
    return [await _taken(ledger, tenant, step) for step in found.values() if _has(step, claim)]


async def _taken(ledger: Ledger, tenant: str, step: StepExecution) -> Taken:
    run = await _run(ledger, tenant, step.run_id)
    undone = None
    if step.undoes is not None:
        undone = value_of(await ledger.head(STEP, tenant, step_place(step.run_id, step.undoes)))
    return Taken(step, run, undone)


async def _reported(
    ledger: Ledger, tenant: str, place: str, claim: Claim
) -> tuple[StepExecution, RunHead, Taken | None, bool]:
    """Return the answer of a repeated report: its step, its run, and the step that it claimed."""
    step = value_of(await ledger.head(STEP, tenant, place))
    assert step is not None, "a step is never erased"
    run = await _run(ledger, tenant, step.run_id)
    active = await current_values(ledger, STEP, tenant, [step_place(step.run_id, number) for number in run.active])
    own = next((other for other in active.values() if _has(other, claim)), None)
    return step, run, None if own is None else await _taken(ledger, tenant, own), True


def _has(step: StepExecution, claim: Claim) -> bool:
    return step.claim == claim.id and step.status == "running"


async def _run(ledger: Ledger, tenant: str, run_id: str) -> RunHead:
    run = value_of(await ledger.head(RUN, tenant, run_id))
    if run is None:
        raise run_not_found(run_id)
    return run
