"""Moving old records to cold storage."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.mongo.documents import (
    chunk_document,
    cold_of,
    head_id,
    heads_of,
    is_once,
    record_from,
    records_of,
    versions_between,
)
from hivemem_runtime.ledger.mongo.driver import Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.purging import pending_purges
from hivemem_runtime.ledger.mongo.workbench import Workbench, persistently
from hivemem_runtime.ledger.stored import CHUNK_RECORDS

_CHUNK_CHARACTERS: Final = 2 * 1024 * 1024


async def freeze_some(
    bench: Workbench,
    exclusively: Callable[[Callable[[], Awaitable[int]]], Awaitable[int]],
    entity: AnyEntity,
    tenant: str,
    id: str,
    through: int,
    limit: int,
) -> int:
    """Move the oldest announced records into one chunk. Answers how many there were."""

    async def attempt() -> int:
        query = Query({"_id": head_id(tenant, id)}, fields={"body": 0, "x": 0})
        with translated():
            found = await bench.database.find(heads_of(entity.name), query)
        if not found or await pending_purges(bench, [(entity.name, tenant, id)]):
            return 0
        (head,) = found
        announced = max(head["announced"], bench.marks.get((entity.name, tenant, id), 0))
        documents = await _oldest(bench, entity, tenant, id, min(through, announced), min(limit, CHUNK_RECORDS))
        if documents:
            await bench.transact(_freezing(bench, entity, head, documents))
        return len(documents)

    return await exclusively(lambda: persistently(attempt))


async def _oldest(
    bench: Workbench, entity: AnyEntity, tenant: str, id: str, through: int, limit: int
) -> list[Document]:
    query = Query({"_id": versions_between(tenant, id, 0, through + 1)}, sort=[("_id", 1)], limit=limit)
    taken: list[Document] = []
    size = 0
    with translated():
        async with bench.database.stream(records_of(entity.name), query) as records:
            async for record in records:
                size += len(record["body"]) + len(record.get("snapshot", ""))
                if taken and size > _CHUNK_CHARACTERS:
                    break
                taken.append(record)
    return taken


def _freezing(
    bench: Workbench, entity: AnyEntity, head: Mapping[str, Any], documents: Sequence[Document]
) -> Operations:
    tenant, id = head["_id"]["t"], head["_id"]["i"]
    records = [record_from(document) for document in documents]
    remembered = bench.clock() - bench.memory_microseconds
    requests = [
        request
        for document in documents
        for request in document.get("q", ())
        if is_once(request) or document["at"] > remembered
    ]
    operations = bench.operations()
    operations.insert(cold_of(entity.name), chunk_document(tenant, id, records, requests))
    operations.delete(records_of(entity.name), {"_id": {"$in": [document["_id"] for document in documents]}})
    # The head is changed too, so that an erasure at the same moment conflicts, which would overlook the chunk.
    where = {"_id": head["_id"], "version": head["version"]}
    operations.update(heads_of(entity.name), where, {"$set": {"guard": bench.token()}})
    return operations
