"""The operations that declare, read, list and delete resources."""

from functools import partial
from typing import Any

import orjson

from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.windows import operations, requests
from hivemem_contracts.windows.replies import ResourceDeleted, ResourceWritten
from hivemem_runtime.ledger.port import Ledger, Outcome, Write
from hivemem_runtime.paging import Lines
from hivemem_runtime.service import Call, Service
from hivemem_windows.decisions.resources import check_resource, delete_resource, put_resource, resource_not_found
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.resources import RESOURCE, ResourceRecord


def bind(service: Service, rules: ResourceRules) -> None:
    ledger = service.ledger
    service.command(operations.RESOURCE_PUT, partial(plan_put, rules), partial(answer_put, ledger))
    service.handler(operations.RESOURCE_GET, partial(get_resource, ledger))
    service.handler(operations.RESOURCE_LIST, partial(list_resources, ledger))
    service.command(operations.RESOURCE_DELETE, plan_delete, answer_delete)


def plan_put(rules: ResourceRules, call: Call, body: requests.PutResource) -> Write:
    check_resource(body.resource)
    rules.prepared(body.resource)
    declared = body.resource.model_dump(mode="json", exclude_defaults=True)
    sender = call.sender.agent
    return call.write(RESOURCE, body.resource.id, lambda heads, now: put_resource(heads, body, declared, sender, now))


async def answer_put(ledger: Ledger, call: Call, body: requests.PutResource, outcome: Outcome) -> ResourceWritten:
    if outcome.answer is not None:
        version, record = outcome.answer
    elif outcome.stamp is not None:
        version, record = outcome.stamp.version, outcome.record
    else:  # a duplicate of a request that changed nothing
        head = await ledger.head(RESOURCE, call.sender.tenant, body.resource.id)
        assert head is not None, "a resource is never erased"
        assert head.value is not None, "a resource is never erased"
        version, record = head.version, head.value
    return ResourceWritten.model_validate({**resource_fields(version, record), "duplicate": outcome.duplicate})


def plan_delete(call: Call, body: requests.DeleteResource) -> Write:
    sender = call.sender.agent
    return call.write(RESOURCE, body.id, lambda heads, now: delete_resource(heads, body.id, sender, now))


def answer_delete(call: Call, body: requests.DeleteResource, outcome: Outcome) -> ResourceDeleted:
    assert outcome.stamp is not None, "a deletion appends"
    return ResourceDeleted(id=body.id, version=outcome.stamp.version, duplicate=outcome.duplicate)


async def get_resource(ledger: Ledger, call: Call, body: requests.GetResource) -> bytes:
    tenant = call.sender.tenant
    if body.version is None:
        head = await ledger.head(RESOURCE, tenant, body.id)
        version, found = (0, None) if head is None else (head.version, head.value)
    else:
        record = await ledger.record(RESOURCE, tenant, body.id, body.version)
        version, found = body.version, None if record is None else record.value
    if found is None or found.declared is None:
        if body.version is None:
            raise resource_not_found(body.id)
        raise NotFound(f"resource {body.id!r} has no version {body.version}", resource=body.id, version=body.version)
    return orjson.dumps(resource_fields(version, found))


async def list_resources(ledger: Ledger, call: Call, body: requests.ListResources) -> bytes:
    lines = Lines(body.limit)
    cursor = body.cursor
    while not lines.complete:
        limit = lines.wanted()
        find = partial(ledger.find, RESOURCE, call.sender.tenant, "declared", equals={}, cursor=cursor)
        page = await find(limit=limit)
        found = [(head.version, head.value) for head in page.items if head.value is not None]
        taken = sum(lines.add(resource_fields(version, record)) for version, record in found)
        if taken < len(found):
            # Read the part that fitted once more, for the cursor behind it.
            page = await find(limit=max(taken, 1))
        cursor = page.cursor
        if cursor is None:
            break
    return lines.answer(cursor)


def resource_fields(version: int, record: ResourceRecord) -> dict[str, Any]:
    """Return the wire format of a resource."""
    return {
        "resource": record.declared,
        "version": version,
        "updated_by": record.by,
        "updated_at": format_microseconds(record.at),
    }
