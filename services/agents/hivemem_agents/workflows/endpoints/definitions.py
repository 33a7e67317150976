"""The operations on definitions."""

from functools import partial
from typing import Final

import orjson

from hivemem_agents.workflows.decisions.definitions import put_workflow
from hivemem_agents.workflows.endpoints.plans import Plans
from hivemem_agents.workflows.entities import WORKFLOW, WorkflowVersion, workflow_fields
from hivemem_contracts.agents import operations
from hivemem_contracts.agents.workflows import requests
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import format_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.paging import Lines
from hivemem_runtime.service import Call, Service

READ_AT_ONCE: Final = 20
"""Definitions in one read, each with all of its steps."""


def bind(service: Service, plans: Plans) -> None:
    service.handler(operations.WORKFLOW_PUT, partial(put, service.ledger))
    service.handler(operations.WORKFLOW_GET, partial(get, plans))
    service.handler(operations.WORKFLOWS, partial(list_workflows, service.ledger))


async def put(ledger: Ledger, call: Call, body: requests.PutWorkflow) -> bytes:
    tenant, agent = call.sender.tenant, call.sender.agent
    write = call.write(WORKFLOW, body.name, lambda heads, now: put_workflow(heads, body, tenant, agent))
    outcome = await ledger.commit(write)
    if outcome.stamp is not None:
        version, workflow, at = outcome.stamp.version, outcome.record, outcome.stamp.at
    elif outcome.answer is not None:
        version, workflow, at = outcome.answer
    else:  # a duplicate of a request that changed nothing
        head = await ledger.head(WORKFLOW, tenant, body.name)
        assert head is not None and head.value is not None, "a workflow is never erased"  # noqa: PT018
        version, workflow, at = head.version, head.value, head.at
    return orjson.dumps({**_view(body.name, version, workflow, at), "duplicate": outcome.duplicate})


async def get(plans: Plans, call: Call, body: requests.GetWorkflow) -> bytes:
    tenant = call.sender.tenant
    version = body.version or (await plans.newest(tenant, body.name)).version
    record = await plans.ledger.record(WORKFLOW, tenant, body.name, version)
    if record is None:
        await plans.newest(tenant, body.name)
        raise NotFound(f"workflow {body.name!r} has no version {version}", name=body.name, version=version)
    return orjson.dumps(_view(body.name, version, record.value, record.stamp.at))


async def list_workflows(ledger: Ledger, call: Call, body: requests.ListWorkflows) -> bytes:
    lines = Lines(body.limit)
    cursor = body.cursor
    while not lines.complete:
        limit = min(lines.wanted(), READ_AT_ONCE)
        page = await ledger.find(WORKFLOW, call.sender.tenant, "all", equals={}, cursor=cursor, limit=limit)
        for head in page.items:
            if head.value is not None:
                lines.add(workflow_fields(head.id, head.version, head.value, head.at))
        cursor = page.cursor
        if cursor is None:
            break
    return lines.answer(cursor)


def _view(name: str, version: int, workflow: WorkflowVersion, at: int) -> dict[str, object]:
    return {
        "name": name,
        "version": version,
        "definition": workflow.definition,
        "created_by": workflow.created_by,
        "created_at": format_microseconds(at),
    }
