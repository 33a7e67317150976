"""The operations that read memories by key: the current value, an older one, and the history."""

from typing import Any

import orjson

from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.memory import operations, requests
from hivemem_memory.decisions.preconditions import expired, memory_not_found
from hivemem_memory.endpoints.json_diff import ABSENT, bounded_differences
from hivemem_memory.endpoints.wire_format import memory_fields, memory_of
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord, version_fields
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger, Record, value_of
from hivemem_runtime.paging import Bookmark, Lines
from hivemem_runtime.service import Call, Service


def bind(service: Service) -> None:
    reads = MemoryReads(service.ledger)
    service.handler(operations.GET, reads.get)
    service.handler(operations.GET_MANY, reads.get_many)
    service.handler(operations.HISTORY, reads.history)


class MemoryReads:
    """The operations `get`, `get_many` and `history`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def get(self, call: Call, body: requests.GetMemory) -> bytes:
        place = place_of(body.namespace, body.key)
        memory: MemoryHead | None
        at: int | None = None
        if body.version is not None:
            memory = await self._at_version(call.sender.tenant, place, body)
        elif body.as_of is not None:
            moment = microseconds_from_time(body.as_of)
            record = (await self._ledger.as_of(MEMORY, call.sender.tenant, [place], moment)).get(place)
            memory = None if record is None else memory_of(record)
            # A memory from a worker with a faster clock is visible, and an expiry time after now has not passed.
            at = min(moment, now_microseconds())
        else:
            head = await self._ledger.head(MEMORY, call.sender.tenant, place)
            memory = value_of(head)
            at = now_microseconds()
        if memory is None:
            raise memory_not_found(body.namespace, body.key, as_of=body.as_of)
        ended = at is not None and expired(memory, at)
        if (ended or memory.deleted) and not body.include_deleted:
            raise memory_not_found(body.namespace, body.key, memory)
        return orjson.dumps(memory_fields(place, memory, ended=ended))

    async def _at_version(self, tenant: str, place: str, body: requests.GetMemory) -> MemoryHead:
        """Return one version, even if its expiry time has passed. Raises `NotFound`."""
        if body.as_of is not None:
            raise InvalidRequest("as_of: cannot be combined with version", field="as_of")
        assert body.version is not None
        record = await self._ledger.record(MEMORY, tenant, place, body.version)
        if record is None or (record.value.deleted and not body.include_deleted):
            what = "is a deletion"
            if record is None:
                head = await self._ledger.head(MEMORY, tenant, place)
                what = "does not exist" + (f", the newest is {head.version}" if head is not None else "")
            raise NotFound(
                f"version {body.version} of memory {body.key!r} of {body.namespace!r} {what}",
                namespace=body.namespace,
                key=body.key,
                version=body.version,
            )
        return memory_of(record)

    async def get_many(self, call: Call, body: requests.GetMemories) -> bytes:
        """Return memories in the order of the request, as many as fit beside the names of the others."""
        names = [{"namespace": key.namespace, "key": key.key} for key in body.keys]
        lines = Lines(len(names), room=REPLY_BYTES - len(orjson.dumps(names)))
        missing: list[dict[str, Any]] = []
        now, done = now_microseconds(), 0
        while done < len(names):
            part = body.keys[done : done + lines.wanted()]
            places = [place_of(key.namespace, key.key) for key in part]
            heads = await self._ledger.heads(MEMORY, call.sender.tenant, places)
            for place in places:
                head = heads.get(place)
                memory = value_of(head)
                if memory is None or memory.deleted or expired(memory, now):
                    missing.append(names[done])
                elif not lines.add(memory_fields(place, memory)):
                    return orjson.dumps({"items": lines.items, "missing": missing, "left": names[done:]})
                done += 1
        return orjson.dumps({"items": lines.items, "missing": missing, "left": []})

    async def history(self, call: Call, body: requests.ReadHistory) -> bytes:
        """Return versions, newest first. Each is read with the version before it, for the diff."""
        place = place_of(body.namespace, body.key)
        bookmark = Bookmark("history", place, body.diff)
        before, average = bookmark.find(body.cursor, int, int) if body.cursor else (None, 0)
        lines = Lines(body.limit, average)
        more = True
        while more and not lines.complete:
            wanted = lines.wanted()
            records = await self._ledger.history(
                MEMORY, call.sender.tenant, place, before=before, limit=wanted + 1, reverse=True
            )
            if not records and before is None:
                raise memory_not_found(body.namespace, body.key)
            more = len(records) > wanted
            for record, older in zip(records[:wanted], [*records[1:], None], strict=False):
                if not lines.add(_version(record, older, diff=body.diff)):
                    more = True
                    break
                before = record.stamp.version
        return lines.answer(bookmark.put(before, lines.average) if more else None)


def _version(record: Record[MemoryRecord], older: Record[MemoryRecord] | None, *, diff: bool) -> dict[str, Any]:
    """Return a line of the history. `older` is the version before, or None for the first one."""
    fields = version_fields(record.value, record.stamp)
    fields |= {"operation": record.value.operation, "request_id": record.stamp.cause, "diff": None}
    fields["diff_omitted"] = False
    if diff:
        room = REPLY_BYTES - len(orjson.dumps(fields))
        fields["diff"] = bounded_differences(_value_of(older), _value_of(record), room)
        fields["diff_omitted"] = fields["diff"] is None
    return fields


def _value_of(record: Record[MemoryRecord] | None) -> Any:
    return ABSENT if record is None or record.value.deleted else record.value.value
