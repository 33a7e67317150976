"""The operations on runs."""

from functools import partial

import orjson

from hivemem_agents.workflows.decisions import runs as rules
from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_agents.workflows.endpoints.wire_format import run_view
from hivemem_agents.workflows.entities import RUN, run_fields
from hivemem_contracts.agents import operations
from hivemem_contracts.agents.workflows import requests
from hivemem_contracts.identifiers import derived_id
from hivemem_contracts.limits import LIST_DEFAULT
from hivemem_runtime.ledger.port import Ledger, Write, value_of
from hivemem_runtime.paging import Lines
from hivemem_runtime.service import Call, Service


def bind(service: Service, settling: Settling) -> None:
    service.handler(operations.RUN_START, partial(start, settling))
    service.handler(operations.RUN_GET, partial(get, settling))
    service.handler(operations.RUNS, partial(list_runs, service.ledger))
    service.handler(operations.RUN_CANCEL, partial(cancel, settling))
    service.handler(operations.RUN_SIGNAL, partial(signal, settling))
    service.handler(operations.RUN_RETRY, partial(retry, settling))


async def start(settling: Settling, call: Call, body: requests.StartRun) -> bytes:
    tenant, agent = call.sender.tenant, call.sender.agent
    run_id = body.run_id or derived_id("run", agent, call.message_id)
    version = body.version or (await settling.plans.newest(tenant, body.name)).version
    plan = await settling.plans.plan(tenant, body.name, version)
    state = None
    if body.session_id is not None and await settling.ledger.head(RUN, tenant, run_id) is None:
        state = await settling.sessions.require(tenant, agent, body.session_id)
    feed = await settling.plans.feed(plan)
    return await _write(
        settling,
        call,
        run_id,
        call.write(
            RUN,
            run_id,
            lambda heads, now: rules.start_run(heads, body, run_id, plan, version, agent, now, state=state, feed=feed),
        ),
    )


async def get(settling: Settling, call: Call, body: requests.GetRun) -> bytes:
    tenant = call.sender.tenant
    run = value_of(await settling.ledger.head(RUN, tenant, body.run_id))
    if run is None:
        raise rules.run_not_found(body.run_id)
    return orjson.dumps(await run_view(settling, tenant, body.run_id, run, limit=body.limit, cursor=body.cursor))


async def list_runs(ledger: Ledger, call: Call, body: requests.ListRuns) -> bytes:
    equals = {field: value for field in ("name", "status") if (value := getattr(body, field)) is not None}
    index = "_".join(equals) or "all"
    lines = Lines(body.limit)
    cursor = body.cursor
    while not lines.complete:
        page = await ledger.find(
            RUN, call.sender.tenant, index, equals=equals, reverse=True, cursor=cursor, limit=min(lines.wanted(), 100)
        )
        taken = [lines.add(run_fields(head.id, head.value)) for head in page.items if head.value is not None]
        if not all(taken):
            # Read the part that fitted once more, for the cursor behind it.
            page = await ledger.find(
                RUN, call.sender.tenant, index, equals=equals, reverse=True, cursor=cursor, limit=sum(taken)
            )
        cursor = page.cursor
        if cursor is None:
            break
    return lines.answer(cursor)


async def cancel(settling: Settling, call: Call, body: requests.CancelRun) -> bytes:
    _, plan = await settling.plans.of_run(call.sender.tenant, body.run_id)
    write = call.write(RUN, body.run_id, lambda heads, now: rules.cancel_run(heads, body.run_id, plan, now))
    return await _write(settling, call, body.run_id, write)


async def signal(settling: Settling, call: Call, body: requests.SignalRun) -> bytes:
    _, plan = await settling.plans.of_run(call.sender.tenant, body.run_id)
    feed = await settling.plans.feed(plan)
    write = call.write(RUN, body.run_id, lambda heads, now: rules.signal_run(heads, body, plan, now, feed))
    return await _write(settling, call, body.run_id, write)


async def retry(settling: Settling, call: Call, body: requests.RetryRun) -> bytes:
    tenant, run_id = call.sender.tenant, body.run_id
    facts, plan = await settling.plans.of_run(tenant, run_id)
    state = None
    if facts.session_id is not None:
        state = await settling.sessions.require(tenant, call.sender.agent, facts.session_id)
    feed = await settling.plans.feed(plan)
    write = call.write(
        RUN, run_id, lambda heads, now: rules.retry_run(heads, run_id, body.step, plan, now, state=state, feed=feed)
    )
    return await _write(settling, call, run_id, write)


async def _write(settling: Settling, call: Call, run_id: str, write: Write) -> bytes:
    """Commit a change of a run, go on with what it ended, and return the run as it is then."""
    outcome = await settling.ledger.commit(write)
    tenant = call.sender.tenant
    await settling.settle_all(tenant, run_id)
    run = value_of(await settling.ledger.head(RUN, tenant, run_id))
    assert run is not None, "a run is never erased"
    view = await run_view(settling, tenant, run_id, run, limit=LIST_DEFAULT)
    return orjson.dumps({**view, "duplicate": outcome.duplicate})
