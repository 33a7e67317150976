"""Reading heads by their keys, and asking for all of them: what has something to announce, whose they are."""

import asyncio
from collections.abc import Mapping, Sequence

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT
from hivemem_runtime.ledger.mongo.cache import HeadKey
from hivemem_runtime.ledger.mongo.documents import head_from, head_id, heads_of
from hivemem_runtime.ledger.mongo.driver import READ_MAJORITY, Database, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.schema import DUE, TENANT
from hivemem_runtime.ledger.port import Due, Head


async def read_heads(
    database: Database, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]
) -> dict[str, Head[HeadT]]:
    if not ids:
        return {}
    query = Query({"_id": {"$in": [head_id(tenant, id) for id in dict.fromkeys(ids)]}})
    with translated():
        documents = await database.find(heads_of(entity.name), query)
    return {head.id: head for head in (head_from(entity, document) for document in documents)}


async def read_tenants(database: Database, entity: AnyEntity) -> list[str]:
    """One step in the index for each of them."""
    command = {"distinct": heads_of(entity.name), "key": "_id.t", "hint": TENANT, "readConcern": READ_MAJORITY}
    with translated():
        reply = await database.command(command)
    return sorted(reply["values"])


async def read_due(
    database: Database, entities: Sequence[AnyEntity], marks: Mapping[HeadKey, int], older_than: int, limit: int
) -> list[Due]:
    found = await asyncio.gather(*(_due_of(database, entity, marks, older_than, limit) for entity in entities))
    return sorted((due for part in found for due in part), key=lambda due: due.at)[:limit]


async def _due_of(
    database: Database, entity: AnyEntity, marks: Mapping[HeadKey, int], older_than: int, limit: int
) -> list[Due]:
    query = Query(
        {"due": True, "at": {"$lt": older_than}},
        fields={"body": 0, "x": 0},
        sort=[("at", 1)],
        limit=limit,
        hint=DUE,
    )
    with translated():
        documents = await database.find(heads_of(entity.name), query)
    found: list[Due] = []
    for document in documents:
        tenant, id = document["_id"]["t"], document["_id"]["i"]
        announced = max(document["announced"], marks.get((entity.name, tenant, id), 0))
        if announced < document["version"]:
            found.append(
                Due(
                    tenant,
                    entity.name,
                    id,
                    announced,
                    document["version"],
                    "erased" in document,
                    document["at"],
                    document.get("actor", ""),
                    document.get("cause"),
                )
            )
    return found
