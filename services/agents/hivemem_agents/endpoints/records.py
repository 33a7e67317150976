"""The operations that write and list records."""

from functools import partial

from hivemem_agents.endpoints.agents import find_definition
from hivemem_agents.endpoints.cycles import find_cycle
from hivemem_agents.endpoints.record_entries import START, Place, entries, place_behind
from hivemem_agents.endpoints.record_memories import RecordMemories, record_fields
from hivemem_agents.entities.records import RECORD, RecordEntry
from hivemem_contracts.agents import operations, requests
from hivemem_contracts.agents.replies import RecordWritten
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import derived_id, microseconds_from_time
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, value_of
from hivemem_runtime.paging import EXAMINED, Bookmark, Lines
from hivemem_runtime.service import Call, Service


def bind(service: Service, memories: RecordMemories) -> None:
    service.handler(operations.RECORD, partial(write_record, service.ledger, memories))
    service.handler(operations.RECORDS, partial(list_records, service.ledger, memories))


async def write_record(
    ledger: Ledger, memories: RecordMemories, call: Call, body: requests.WriteRecord
) -> RecordWritten:
    """Put the memory, then note that it is a record. A repetition does both again, with the same outcome."""
    tenant = call.sender.tenant
    metadata = body.metadata or {}
    if metadata.get("kind", body.kind) != body.kind:
        raise InvalidRequest(
            f"metadata.kind: the kind of the record is {body.kind!r}, got {metadata['kind']!r}", field="metadata.kind"
        )
    if body.number is None:
        await find_definition(ledger, tenant, body.agent_id)
    else:
        await find_cycle(ledger, tenant, body.agent_id, body.number)
    key = body.record_id or derived_id("record", tenant, body.agent_id, call.sender.agent, call.message_id)
    entry = RecordEntry(
        body.agent_id, key, body.kind, body.number, body.importance, call.sender.agent, now_microseconds()
    )
    answer = await memories.put(call.sender, entry, body.content, metadata, call.message_id)
    await note_record(ledger, call, entry)
    return RecordWritten(
        namespace=answer["namespace"], key=key, version=answer["version"], duplicate=answer["duplicate"]
    )


async def note_record(ledger: Ledger, call: Call, entry: RecordEntry) -> None:
    """Note a record. One that was noted before keeps its time and its first writer."""
    id = place_of(entry.agent_id, entry.key)

    def decide(heads: Heads, now: int) -> Decision:
        before = value_of(heads(RECORD, id))
        after = entry if before is None else _later(before, entry)
        return [] if after == before else [Append(RECORD, id, after)]

    await ledger.commit(call.step(RECORD, id, decide))


def _later(before: RecordEntry, entry: RecordEntry) -> RecordEntry:
    return RecordEntry(entry.agent_id, entry.key, entry.kind, entry.number, entry.importance, before.by, before.at)


async def list_records(ledger: Ledger, memories: RecordMemories, call: Call, body: requests.ListRecords) -> bytes:
    tenant = call.sender.tenant
    bookmark = Bookmark("records", body.agent_id, body.kind, body.number, str(body.since), str(body.until))
    after = START if body.cursor is None else Place(*bookmark.find(body.cursor, int, str))
    if body.cursor is None:
        await find_definition(ledger, tenant, body.agent_id)
    lines = Lines(body.limit)
    examined = 0
    found = entries(
        ledger,
        tenant,
        body.agent_id,
        kind=body.kind,
        number=body.number,
        after=after,
        since=0 if body.since is None else microseconds_from_time(body.since),
        until=None if body.until is None else microseconds_from_time(body.until),
        at_once=min(body.limit, 200) + 1,
    )
    async for page in found:
        kept, left = await memories.get_some(call.sender, body.agent_id, [entry.key for entry in page])
        for entry in page:
            if entry.key in left or (entry.key in kept and not lines.add(record_fields(entry, kept[entry.key]))):
                return lines.answer(bookmark.put(*after))
            after = place_behind(entry)
        examined += len(page)
        if examined >= EXAMINED:
            return lines.answer(bookmark.put(*after))
    return lines.answer(None)
