"""The operations that export an agent as lines, and import them."""

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from hivemem_agents.decisions.traces import import_agent, import_cycle
from hivemem_agents.endpoints.agents import definition_fields, find_definition
from hivemem_agents.endpoints.cycles import find_cycle
from hivemem_agents.endpoints.record_entries import START, Place, entries, place_behind
from hivemem_agents.endpoints.record_memories import RecordMemories, record_fields
from hivemem_agents.endpoints.records import note_record
from hivemem_agents.entities.agents import AGENT, PROGRESS
from hivemem_agents.entities.cycles import CYCLE, CycleRecord, cycle_fields, cycle_id
from hivemem_agents.entities.records import RecordEntry
from hivemem_contracts.agents import operations
from hivemem_contracts.agents.replies import TraceImported
from hivemem_contracts.agents.requests import AgentLine, CycleLine, ImportTrace, ReadTrace, RecordLine, TraceLine
from hivemem_contracts.errors import AlreadyExists, InvalidRequest, NotFound, TooLarge
from hivemem_contracts.identifiers import derived_id, microseconds_from_time
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.paging import READ_AT_ONCE, Bookmark, Lines
from hivemem_runtime.service import Call, Service, earlier_outcome


def bind(service: Service, memories: RecordMemories) -> None:
    service.handler(operations.TRACE, partial(read_trace, service.ledger, memories))
    service.handler(operations.TRACE_IMPORT, partial(import_trace, service.ledger, memories))


async def read_trace(ledger: Ledger, memories: RecordMemories, call: Call, body: ReadTrace) -> bytes:
    """Merge cycles and records by time. The first `limit` of the two lists hold the first `limit` of the merged one."""
    tenant = call.sender.tenant
    bookmark = Bookmark("trace", body.agent_id, body.after)
    definition = await find_definition(ledger, tenant, body.agent_id)
    limit = min(body.limit, READ_AT_ONCE)
    lines = Lines(limit)
    number, place = body.after or 0, START
    if body.cursor is not None:
        number, *rest = bookmark.find(body.cursor, int, int, str)
        place = Place(*rest)
    elif body.after:
        place = Place((await find_cycle(ledger, tenant, body.agent_id, body.after)).created_at)
    else:
        lines.add({"type": "agent", **definition_fields(body.agent_id, definition)})
    equals = {"agent_id": body.agent_id}
    cycles = await ledger.find(CYCLE, tenant, "agent", equals=equals, low=number + 1, limit=limit)
    noted = await anext(entries(ledger, tenant, body.agent_id, after=place, at_once=limit + 1))
    found: list[tuple[int, int, CycleRecord | RecordEntry]] = [(entry.at, 1, entry) for entry in noted]
    found += [(head.value.created_at, 0, head.value) for head in cycles.items if head.value is not None]
    found.sort(key=itemgetter(0, 1))
    kept, left = await memories.get_some(
        call.sender, body.agent_id, [one.key for _, _, one in found[:limit] if isinstance(one, RecordEntry)]
    )
    for _, _, one in found[:limit]:
        if isinstance(one, CycleRecord):
            if not lines.add({"type": "cycle", **cycle_fields(one)}):
                break
            number = one.number
            continue
        if one.key in left or (one.key in kept and not lines.add(_record_line(one, kept[one.key]))):
            break
        place = place_behind(one)
    else:
        if len(found) <= limit and cycles.cursor is None and len(noted) <= limit:
            return lines.answer(None)
    return lines.answer(bookmark.put(number, *place))


def _record_line(entry: RecordEntry, memory: dict[str, Any]) -> dict[str, Any]:
    fields = record_fields(entry, memory)
    del fields["namespace"], fields["version"]
    return {"type": "record", **fields}


async def import_trace(ledger: Ledger, memories: RecordMemories, call: Call, body: ImportTrace) -> TraceImported:
    """Import line by line. A call that failed in the middle can be repeated."""
    first = body.items[0].agent_id
    if await earlier_outcome(ledger, call, PROGRESS, first) is not None:
        return TraceImported(lines=len(body.items), duplicate=True)
    there = await _records_there(memories, call, body)
    for number, line in enumerate(body.items):
        try:
            await _import_line(ledger, memories, call, line, there)
        except (AlreadyExists, InvalidRequest, NotFound, TooLarge) as error:
            field = ".".join(["items", str(number), *filter(None, [error.context.pop("field", None)])])
            raise type(error)(f"items.{number}: {error.detail}", field=field, **error.context) from error
    await ledger.commit(call.note(PROGRESS, first))
    return TraceImported(lines=len(body.items))


async def _records_there(
    memories: RecordMemories, call: Call, body: ImportTrace
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the memories of the records that exist already, by agent and key."""
    asked: dict[str, list[str]] = {}
    for line in body.items:
        if isinstance(line, RecordLine):
            asked.setdefault(line.agent_id, []).append(line.key)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for agent_id, keys in asked.items():
        left = keys
        while left:
            some, left = await memories.get_some(call.sender, agent_id, left)
            found.update(((agent_id, key), memory) for key, memory in some.items())
    return found


async def _import_line(
    ledger: Ledger,
    memories: RecordMemories,
    call: Call,
    line: TraceLine,
    there: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    match line:
        case AgentLine():
            write = call.step(AGENT, line.agent_id, lambda heads, now: import_agent(heads, line))
            await ledger.commit(write)
        case CycleLine():
            id = cycle_id(line.agent_id, line.number)
            write = call.step(CYCLE, id, lambda heads, now: import_cycle(heads, line))
            await ledger.commit(write)
        case RecordLine():
            await _import_record(ledger, memories, call, line, there.get((line.agent_id, line.key)))


async def _import_record(
    ledger: Ledger, memories: RecordMemories, call: Call, line: RecordLine, there: dict[str, Any] | None
) -> None:
    await find_definition(ledger, call.sender.tenant, line.agent_id)
    at = microseconds_from_time(line.at)
    entry = RecordEntry(line.agent_id, line.key, line.kind, line.number, line.importance, line.created_by, at)
    # Noted first: a note of the time of the import would stay.
    await note_record(ledger, call, entry)
    wanted = {"value": line.content, "importance": line.importance, "metadata": {**line.metadata, "kind": line.kind}}
    if there is not None:
        if any(there[name] != value for name, value in wanted.items()):
            raise AlreadyExists(f"record {line.key!r} of agent {line.agent_id!r} is there with another content")
        return
    message_id = derived_id(call.message_id, line.agent_id, line.key)
    await memories.put(call.sender, entry, line.content, line.metadata, message_id)
