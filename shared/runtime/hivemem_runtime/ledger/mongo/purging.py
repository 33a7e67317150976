"""Removing what erased keys leave behind: records, hot and cold, and what their requests are known by."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo.documents import (
    ONCE,
    PURGES,
    REQUEST,
    REQUESTS,
    below,
    chunk_document,
    cold_of,
    is_once,
    once_path,
    purge_id,
    records_of,
    versions_between,
)
from hivemem_runtime.ledger.mongo.driver import Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.schema import STAMPED
from hivemem_runtime.ledger.mongo.workbench import Workbench
from hivemem_runtime.ledger.stored import unpack

KEYS_AT_ONCE: Final = 100
_RECORDS_AT_ONCE: Final = 500
_RESUMED_AT_ONCE: Final = 1_000
_SPEND: Final = {
    "$set": {"spent": True},
    "$unset": dict.fromkeys(("t", "i", "v", "held", "at", "actor", "cause", "trace", "d"), ""),
}

_LASTING: Final = {"until": {"$exists": False}}


class Purge(NamedTuple):
    """Of a key, all through a version goes, except records whose position is at most `keep`."""

    entity: AnyEntity
    tenant: str
    id: str
    through: int
    keep: int

    @property
    def document(self) -> Document:
        return {"_id": purge_id(self.entity.name, self.tenant, self.id), "through": self.through, "keep": self.keep}


async def resume_purges(bench: Workbench) -> None:
    """Finish what a process left that ended in the middle of an erasure."""
    await purge(bench, await _pending(bench, Query({}, limit=_RESUMED_AT_ONCE)))


async def pending_purges(bench: Workbench, keys: Iterable[tuple[str, str, str]]) -> list[Purge]:
    """Of erasures that were cut off, or are under way."""
    return await _pending(bench, Query({"_id": {"$in": [purge_id(*key) for key in keys]}}))


async def _pending(bench: Workbench, query: Query) -> list[Purge]:
    with translated():
        found = await bench.database.find(PURGES, query)
    purges: list[Purge] = []
    for each in found:
        entity = bench.entities.get(each["_id"]["e"])
        if entity is not None:
            purges.append(Purge(entity, each["_id"]["t"], each["_id"]["i"], each["through"], each["keep"]))
    return purges


async def purge(bench: Workbench, purges: Iterable[Purge]) -> None:
    """Each step may be done again. What says that there is something to do goes last."""
    by_entity: dict[str, list[Purge]] = defaultdict(list)
    for each in purges:
        by_entity[each.entity.name].append(each)
    for keys in by_entity.values():
        for start in range(0, len(keys), KEYS_AT_ONCE):
            await _purge_keys(bench, keys[start : start + KEYS_AT_ONCE])


async def _purge_keys(bench: Workbench, purges: Sequence[Purge]) -> None:
    name = purges[0].entity.name
    by_key = {(each.tenant, each.id): each for each in purges}
    below = Query(
        {"$or": [{"_id": versions_between(each.tenant, each.id, 0, each.through + 1)} for each in purges]},
        fields={"p": 1, "q": 1},
        sort=[("_id", 1)],
    )
    part: list[Document] = []
    with translated():
        async with bench.database.stream(records_of(name), below) as records:
            async for record in records:
                part.append(record)
                if len(part) == _RECORDS_AT_ONCE:
                    await _remove_records(bench, name, by_key, part)
                    part = []
        await _remove_records(bench, name, by_key, part)
        chunks = await bench.database.find(cold_of(name), Query(below.filter, fields={"_id": 1}, sort=[("_id", 1)]))
    for chunk in chunks:
        await _purge_chunk(bench, by_key[chunk["_id"]["t"], chunk["_id"]["i"]], chunk["_id"])
    if not purges[0].entity.history:
        await _spend_stamped(bench, purges)
    await _forget_undone(bench, name, purges)
    operations = bench.operations()
    for each in purges:
        identity = purge_id(name, each.tenant, each.id)
        operations.delete(PURGES, {"_id": identity, "through": each.through})
    await bench.write(operations)


async def _remove_records(
    bench: Workbench, name: str, by_key: dict[tuple[str, str], Purge], records: Sequence[Document]
) -> None:
    operations = bench.operations()
    requests: dict[Purge, list[str]] = defaultdict(list)
    gone: list[Document] = []
    for record in records:
        identity = record["_id"]
        key = by_key[identity["t"], identity["i"]]
        requests[key] += record.get("q", ())
        if not 0 < record.get("p", 0) <= key.keep:
            gone.append(identity)
    for key, known in requests.items():
        _spend_requests(operations, key, known)
    if gone:
        operations.delete(records_of(name), {"_id": {"$in": gone}})
    if len(operations):
        await bench.write(operations)


def _spend_requests(operations: Operations, key: Purge, identities: Sequence[str]) -> None:
    """Event ids, and requests that last as long as their key, go with it. The id of another request stays until it
    would be forgotten, so that a late copy is known.
    Either may have been used again since: then it answers with a later version, or with one of another key."""
    once = [identity for identity in identities if is_once(identity)]
    requests = [identity for identity in identities if not is_once(identity)]
    if once:
        operations.delete(REQUESTS, {"_id": {"$in": once}, "held": {"$lte": key.through}})
    if requests:
        answered = {"_id": {"$in": requests}, **_answered_by(key)}
        operations.delete(REQUESTS, {**answered, **_LASTING})
        operations.update_many(REQUESTS, answered, _SPEND)


async def _spend_stamped(bench: Workbench, purges: Iterable[Purge]) -> None:
    """Spend the requests that no record names. The key that answers them finds them; an event id whose answer is
    another key's is found by its own key too."""
    operations = bench.operations()
    for key in purges:
        stamped = {**_answered_by(key), "at": {"$exists": True}}
        own = below(once_path(key.entity.name, key.tenant, key.id))
        operations.delete(REQUESTS, {"_id": own, "held": {"$lte": key.through}}, hint="_id_")
        operations.delete(REQUESTS, {"_id": below(ONCE), **stamped}, hint=STAMPED)
        operations.delete(REQUESTS, {"_id": below(REQUEST), **stamped, **_LASTING}, hint=STAMPED)
        operations.update_many(REQUESTS, {"_id": below(REQUEST), **stamped}, _SPEND, hint=STAMPED)
    await bench.write(operations)


def _answered_by(key: Purge) -> Document:
    return {"entity": key.entity.name, "t": key.tenant, "i": key.id, "v": {"$lte": key.through}}


async def _purge_chunk(bench: Workbench, key: Purge, identity: Document) -> None:
    """Store the remaining records before the old chunk is deleted. A crash in between leaves both, which readers do not
    notice."""
    name = key.entity.name
    with translated():
        found = await bench.database.find(cold_of(name), Query({"_id": identity}))
    if not found:
        return
    (chunk,) = found
    records = unpack(chunk["chunk"])
    kept = [record for record in records if record.position is not None and record.position <= key.keep]
    if kept and len(kept) < len(records):
        operations = bench.operations()
        operations.put(cold_of(name), chunk_document(key.tenant, key.id, kept, ()))
        await bench.write(operations)
    operations = bench.operations()
    _spend_requests(operations, key, chunk.get("q", ()))
    if not kept or kept[-1].version != identity["v"]:
        operations.delete(cold_of(name), {"_id": identity})
    if len(operations):
        await bench.write(operations)


async def _forget_undone(bench: Workbench, name: str, purges: Sequence[Purge]) -> None:
    """Requests that found nothing to do are remembered by their keys alone."""
    by_tenant: dict[str, list[str]] = defaultdict(list)
    for each in purges:
        by_tenant[each.tenant].append(each.id)
    operations = bench.operations()
    for tenant, ids in by_tenant.items():
        operations.delete(REQUESTS, {"entity": name, "t": tenant, "i": {"$in": ids}, "v": 0})
    await bench.write(operations)
