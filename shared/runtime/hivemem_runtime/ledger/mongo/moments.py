"""Records by the moment at which they were the last ones of their keys."""

import asyncio
from collections.abc import Sequence
from typing import Final

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT
from hivemem_runtime.ledger.mongo.documents import (
    HIGHEST_VERSION,
    cold_of,
    record_from,
    record_id,
    records_of,
    versions_between,
)
from hivemem_runtime.ledger.mongo.driver import LOWEST, Database, Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.history import read_versions
from hivemem_runtime.ledger.mongo.schema import COLD_BY_TIME, MOMENT, keeps_moments
from hivemem_runtime.ledger.port import Record
from hivemem_runtime.ledger.stored import StoredRecord, unpack

_PROBES: Final = 32
"""Versions looked at in one round: four rounds find a moment among a million."""
_KEYS_AT_ONCE: Final = 32


async def read_as_of(
    database: Database, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str], at: int
) -> dict[str, Record[RecordT]]:
    wanted = list(dict.fromkeys(ids))
    if not keeps_moments(entity):
        return await _as_of_one_by_one(database, entity, tenant, wanted, at)
    found: dict[str, Record[RecordT]] = {}
    last = _last_of_each(tenant, wanted, at)
    with translated():
        async with database.aggregate(records_of(entity.name), last, hint=MOMENT) as groups:
            async for group in groups:
                found[group["_id"]] = record_from(group["last"]).read(entity, tenant, group["_id"])
    cold = [id for id in wanted if id not in found]
    if cold:
        last = _last_of_each(tenant, cold, at)
        with translated():
            async with database.aggregate(cold_of(entity.name), last, hint=COLD_BY_TIME) as groups:
                async for group in groups:
                    record = _last_in(group["last"], at)
                    found[group["_id"]] = record.read(entity, tenant, group["_id"])
    return found


def _last_of_each(tenant: str, ids: Sequence[str], at: int) -> list[Document]:
    """In this form the server takes one step in the index for each id, however many versions it has."""
    return [
        {"$match": {"_id.t": tenant, "_id.i": {"$in": ids}, "at": {"$lte": at, "$gt": LOWEST}}},
        {"$sort": {"_id.t": -1, "_id.i": -1, "at": -1}},
        {"$group": {"_id": "$_id.i", "last": {"$first": "$$ROOT"}}},
    ]


def _last_in(chunk: Document, at: int) -> StoredRecord:
    """A chunk's own time is that of its first record."""
    return max((record for record in unpack(chunk["chunk"]) if record.at <= at), key=lambda record: record.version)


async def _as_of_one_by_one(
    database: Database, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str], at: int
) -> dict[str, Record[RecordT]]:
    found: dict[str, Record[RecordT]] = {}
    for start in range(0, len(ids), _KEYS_AT_ONCE):
        part = ids[start : start + _KEYS_AT_ONCE]
        versions = await asyncio.gather(*(_divided(database, entity, tenant, id, at) for id in part))
        places = [(tenant, id, version) for id, version in zip(part, versions, strict=True) if version]
        found |= {id: record for (_, id, _), record in (await read_versions(database, entity, places)).items()}
    return found


async def read_version_at(database: Database, entity: AnyEntity, tenant: str, id: str, at: int) -> int:
    if not keeps_moments(entity):
        return await _divided(database, entity, tenant, id, at)
    query = Query(
        {"_id.t": tenant, "_id.i": id, "at": {"$lte": at, "$gt": LOWEST}},
        fields={"_id": 1},
        sort=[("_id.t", -1), ("_id.i", -1), ("at", -1)],
        limit=1,
        hint=MOMENT,
    )
    with translated():
        found = await database.find(records_of(entity.name), query)
    return int(found[0]["_id"]["v"]) if found else await _cold_version_at(database, entity, tenant, id, at)


async def _divided(database: Database, entity: AnyEntity, tenant: str, id: str, at: int) -> int:
    """Versions and commit times grow together along a key, so a moment is found by dividing."""
    oldest, newest = await asyncio.gather(
        _end(database, entity, tenant, id, direction=1), _end(database, entity, tenant, id, direction=-1)
    )
    if oldest is None or newest is None or oldest["at"] > at:
        return await _cold_version_at(database, entity, tenant, id, at)
    if newest["at"] <= at:
        return int(newest["_id"]["v"])
    low, high = int(oldest["_id"]["v"]), int(newest["_id"]["v"])
    while high - low > 1:
        step = max(1, (high - low) // (_PROBES + 1))
        probes = [record_id(tenant, id, version) for version in range(low + step, high, step)]
        found = await _times(database, entity, Query({"_id": {"$in": probes}}, fields={"at": 1}))
        if not found:
            return await _last_before(database, entity, tenant, id, low, high, at)
        low = max((version for version, when in found if when <= at), default=low)
        high = min((version for version, when in found if when > at), default=high)
    return low


async def _end(database: Database, entity: AnyEntity, tenant: str, id: str, *, direction: int) -> Document | None:
    between = versions_between(tenant, id, 0, HIGHEST_VERSION)
    with translated():
        query = Query({"_id": between}, fields={"at": 1}, sort=[("_id", direction)], limit=1)
        found = await database.find(records_of(entity.name), query)
    return found[0] if found else None


async def _times(database: Database, entity: AnyEntity, query: Query) -> list[tuple[int, int]]:
    with translated():
        return [(found["_id"]["v"], found["at"]) for found in await database.find(records_of(entity.name), query)]


async def _last_before(
    database: Database, entity: AnyEntity, tenant: str, id: str, low: int, high: int, at: int
) -> int:
    """For the gaps that an erasure leaves when it keeps some records, or a freeze that happens just now."""
    between = versions_between(tenant, id, low, high)
    query = Query({"_id": between, "at": {"$lte": at}}, fields={"at": 1}, sort=[("_id", -1)], limit=1)
    found = await _times(database, entity, query)
    return max([low, *(version for version, _ in found), await _cold_version_at(database, entity, tenant, id, at)])


async def _cold_version_at(database: Database, entity: AnyEntity, tenant: str, id: str, at: int) -> int:
    where = {"_id.t": tenant, "_id.i": id, "at": {"$lte": at, "$gt": LOWEST}}
    query = Query(where, sort=[("_id.t", -1), ("_id.i", -1), ("at", -1)], limit=1, hint=COLD_BY_TIME)
    with translated():
        found = await database.find(cold_of(entity.name), query)
    return _last_in(found[0], at).version if found else 0
