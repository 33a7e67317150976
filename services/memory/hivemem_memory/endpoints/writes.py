"""The operations that put, patch, delete and restore memories. Each commits one decision."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import orjson

from hivemem_contracts.errors import HiveError
from hivemem_contracts.memory import operations, replies, requests
from hivemem_memory.decisions.batches import Batch, PartResult, StagedMemories
from hivemem_memory.decisions.preconditions import CurrentHead, fences_of
from hivemem_memory.decisions.restores import restore_memory
from hivemem_memory.decisions.writes import delete_memory, patch_memory, put_memory
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.batches import commit_batch
from hivemem_memory.entities.leases import LEASE
from hivemem_memory.entities.memories import MEMORY, MemoryRecord, require_announceable
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.places import namespace_and_key, place_of
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service

Written = requests.PutMemory | requests.PatchMemory | requests.DeleteMemory | requests.RestoreMemory
PartT = TypeVar("PartT", requests.PutMemory, requests.DeleteMemory)


def bind(service: Service, trail: AuditTrail) -> None:
    service.command(operations.PUT, plan_put, answer_written)
    service.command(operations.PATCH, plan_patch, answer_written)
    service.command(operations.DELETE, plan_delete, answer_written)
    service.handler(operations.PUT_BATCH, partial(put_batch, service.ledger, trail))
    service.handler(operations.DELETE_BATCH, partial(delete_batch, service.ledger, trail))
    service.handler(operations.RESTORE, partial(restore, service.ledger))


def plan_put(call: Call, body: requests.PutMemory) -> Write:
    agent, published_at = call.sender.agent, call.published_at
    require_announceable(call.sender.tenant, body.namespace, body.key)
    return _plan(call, body, lambda heads, head, now: put_memory(heads, head, body, agent, published_at, now))


def plan_patch(call: Call, body: requests.PatchMemory) -> Write:
    published_at = call.published_at
    return _plan(call, body, lambda heads, head, now: patch_memory(heads, head, body, published_at, now))


def plan_delete(call: Call, body: requests.DeleteMemory) -> Write:
    published_at = call.published_at
    return _plan(call, body, lambda heads, head, now: delete_memory(heads, head, body, published_at, now))


def _plan(call: Call, body: Written, decide_record: Callable[[Heads, CurrentHead, int], MemoryRecord]) -> Write:
    """Return the write of the next version of a memory."""
    place = place_of(body.namespace, body.key)

    def decide(heads: Heads, now: int) -> Decision:
        return (Append(MEMORY, place, decide_record(heads, heads(MEMORY, place), now)),)

    return call.write(MEMORY, place, decide, () if call.published_at is None else fences_of(body.namespace, body.key))


def answer_written(call: Call, body: Written, outcome: Outcome) -> replies.MemoryWritten:
    stamp = outcome.stamp
    assert stamp is not None
    namespace, key = namespace_and_key(stamp.id)
    return replies.MemoryWritten.model_construct(
        namespace=namespace,
        key=key,
        version=stamp.version,
        created=outcome.record.created_at is None,
        duplicate=outcome.duplicate,
    )


async def restore(ledger: Ledger, call: Call, body: requests.RestoreMemory) -> replies.MemoryWritten:
    """Restore a memory. The older version is read before the commit, because it never changes."""
    published_at, version = call.published_at, body.version
    wanted = None
    if version is not None:
        wanted = await ledger.record(MEMORY, call.sender.tenant, place_of(body.namespace, body.key), version)
    write = _plan(call, body, lambda heads, head, now: restore_memory(heads, head, body, wanted, published_at, now))
    return answer_written(call, body, await ledger.commit(write))


async def put_batch(ledger: Ledger, trail: AuditTrail, call: Call, body: requests.PutMemories) -> bytes:
    tenant, agent, published_at = call.sender.tenant, call.sender.agent, call.published_at

    def put(staged: StagedMemories, head: CurrentHead, part: requests.PutMemory) -> MemoryRecord:
        require_announceable(tenant, part.namespace, part.key)
        return put_memory(staged.heads, head, part, agent, published_at, staged.now)

    return await _write_batch(ledger, trail, call, body.puts, put)


async def delete_batch(ledger: Ledger, trail: AuditTrail, call: Call, body: requests.DeleteMemories) -> bytes:
    published_at = call.published_at

    def delete(staged: StagedMemories, head: CurrentHead, part: requests.DeleteMemory) -> MemoryRecord:
        return delete_memory(staged.heads, head, part, published_at, staged.now)

    return await _write_batch(ledger, trail, call, body.deletes, delete)


async def _write_batch(
    ledger: Ledger,
    trail: AuditTrail,
    call: Call,
    bodies: Sequence[PartT],
    decide_record: Callable[[StagedMemories, CurrentHead, PartT], MemoryRecord],
) -> bytes:
    """Commit the next version of each memory, and return the outcome of each part."""
    places = [place_of(part.namespace, part.key) for part in bodies]

    def do_part(staged: StagedMemories, number: int) -> PartResult:
        head = staged.head(places[number])
        record = decide_record(staged, head, bodies[number])
        return [staged.append(places[number], head, record), record.created_at is None]

    reads: list[tuple[AnyEntity, str]] = []
    reads += [(LEASE, place_of(part.lease.namespace, part.lease.key)) for part in bodies if part.lease is not None]
    if call.published_at is not None:
        reads += [fence for part in bodies for fence in fences_of(part.namespace, part.key)]
    batch = Batch(call.request_id, call.sender.agent, places, do_part, reads)
    parts = await commit_batch(ledger, trail, call, bodies, batch)
    return orjson.dumps({"results": [_outcome(*part) for part in zip(bodies, *parts, strict=True)]})


def _outcome(part: Written, result: PartResult | HiveError, duplicate: bool) -> dict[str, Any]:
    """Return the wire format of a `MemoryOutcome`. A model for each of a thousand outcomes would dominate the
    request."""
    outcome = {"namespace": part.namespace, "key": part.key}
    if isinstance(result, HiveError):
        return {**outcome, "version": None, "created": None, "duplicate": None, **result.body()}
    version, created = result
    return {**outcome, "version": version, "created": created, "duplicate": duplicate, "error": None}
