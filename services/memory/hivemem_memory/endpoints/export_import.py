"""The operations `export` and `import`. Each line holds one memory with its origin."""

from functools import partial
from typing import Any

from hivemem_contracts.errors import HiveError
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.memory import operations, replies, requests
from hivemem_memory.decisions.batches import Batch, PartResult, StagedMemories
from hivemem_memory.decisions.copies import import_memory, past_of
from hivemem_memory.decisions.preconditions import fences_of, require_unfenced
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.batches import commit_batch
from hivemem_memory.endpoints.snapshots import SnapshotPage
from hivemem_memory.endpoints.wire_format import memory_fields
from hivemem_memory.entities.memories import MemoryHead, require_announceable
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.paging import Lines
from hivemem_runtime.service import Call, Service

_CONTENT = (
    "namespace",
    "key",
    "value",
    "memory_type",
    "metadata",
    "importance",
    "valid_from",
    "valid_to",
    "expires_at",
    "source",
    "index",
)


def bind(service: Service, trail: AuditTrail) -> None:
    service.handler(operations.EXPORT, partial(export, service.ledger, trail))
    service.handler(operations.IMPORT, partial(import_memories, service.ledger, trail))


def line_of(place: str, memory: MemoryHead) -> dict[str, Any]:
    """Return the wire format of an `ImportedMemory`: the content of a memory, with that memory as the origin."""
    fields = memory_fields(place, memory)
    line = {name: fields[name] for name in _CONTENT}
    line["copied_from"] = past_of(place, memory)
    return line


async def export(ledger: Ledger, trail: AuditTrail, call: Call, body: requests.ExportMemories) -> bytes:
    """Export a page. The export is recorded in the audit before the first page."""
    page = SnapshotPage(ledger, call, "export", body.prefix)
    lines = Lines(body.limit, await page.begin(body.as_of, body.cursor))
    if body.cursor is None:
        await trail.exported(call, body.prefix)
    cursor = await page.fill(lines, line_of)
    return lines.answer(cursor, as_of=format_microseconds(page.at))


async def import_memories(
    ledger: Ledger, trail: AuditTrail, call: Call, body: requests.ImportMemories
) -> replies.MemoriesImported:
    items = body.items
    places = [place_of(item.namespace, item.key) for item in items]
    tenant, agent, published_at = call.sender.tenant, call.sender.agent, call.published_at

    def do_part(staged: StagedMemories, number: int) -> PartResult:
        item, place = items[number], places[number]
        require_announceable(tenant, item.namespace, item.key)
        require_unfenced(staged.heads, item.namespace, item.key, published_at)
        head = staged.head(place)
        outcome, record = import_memory(item, body.existing, head, agent, staged.now)
        if record is not None:
            return [outcome, staged.append(place, head, record)]
        assert head is not None
        return [outcome, head.version]

    fenced = [] if published_at is None else items
    reads = [fence for item in fenced for fence in fences_of(item.namespace, item.key)]
    batch = Batch(call.request_id, agent, places, do_part, reads)
    parts = await commit_batch(ledger, trail, call, items, batch)
    return replies.MemoriesImported.model_construct(
        results=[_outcome(item, result) for item, result in zip(items, parts.results, strict=True)]
    )


def _outcome(item: requests.ImportedMemory, result: PartResult | HiveError) -> replies.ImportOutcome:
    if isinstance(result, HiveError):
        return replies.ImportOutcome.model_construct(
            namespace=item.namespace, key=item.key, outcome="refused", **result.body()
        )
    outcome, version = result
    return replies.ImportOutcome.model_construct(
        namespace=item.namespace, key=item.key, version=version, outcome=outcome
    )
