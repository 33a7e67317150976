"""Reading records, hot and cold. The hot ones first: what is frozen meanwhile is then found twice, not lost."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT
from hivemem_runtime.ledger.mongo.documents import (
    cold_of,
    record_from,
    record_id,
    records_of,
    versions_between,
)
from hivemem_runtime.ledger.mongo.driver import Database, Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.schema import COLD_KEYS, POSITION, cold_index, tag_index
from hivemem_runtime.ledger.port import Record
from hivemem_runtime.ledger.stored import CHUNK_RECORDS, StoredRecord, matching, unpack

Place = tuple[str, str, int]
"""Tenant, id, version."""

_CHUNKS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class MongoSpan:
    """The part of a key's records that a reader asked for; `after` and `before` are excluded."""

    tenant: str
    id: str
    after: int
    before: int
    limit: int
    reverse: bool = False
    by_position: bool = False
    tag: tuple[str, str] | None = None

    @property
    def direction(self) -> int:
        return -1 if self.reverse else 1

    def place(self, record: StoredRecord) -> int:
        return record.version if not self.by_position or record.position is None else record.position


async def read_versions(
    database: Database, entity: Entity[HeadT, RecordT], places: Collection[Place]
) -> dict[Place, Record[RecordT]]:
    """Return records by key and version, without the ones that do not exist."""
    if not places:
        return {}
    query = Query({"_id": {"$in": [record_id(*place) for place in places]}})
    with translated():
        documents = await database.find(records_of(entity.name), query)
    found: dict[Place, Record[RecordT]] = {}
    for document in documents:
        tenant, id, version = document["_id"].values()
        found[tenant, id, version] = record_from(document).read(entity, tenant, id)
    for tenant, id, version in set(places) - found.keys():
        cold = await _read_cold(database, entity, MongoSpan(tenant, id, version - 1, version + 1, 1))
        if cold:
            found[tenant, id, version] = cold[0].read(entity, tenant, id)
    return found


async def read_history(database: Database, entity: Entity[HeadT, RecordT], stretch: MongoSpan) -> list[Record[RecordT]]:
    if stretch.limit <= 0 or stretch.before <= stretch.after + 1 or (stretch.by_position and not entity.position):
        return []
    with translated():
        documents = await database.find(records_of(entity.name), _hot_query(stretch))
    records = [record_from(document) for document in documents]
    if not _whole(stretch, records):
        records = _merged(stretch, records, await _read_cold(database, entity, stretch))
    return [record.read(entity, stretch.tenant, stretch.id) for record in records]


def _hot_query(stretch: MongoSpan) -> Query:
    direction = stretch.direction
    if not stretch.by_position:
        between = versions_between(stretch.tenant, stretch.id, stretch.after, stretch.before)
        return Query({"_id": between}, sort=[("_id", direction)], limit=stretch.limit)
    positions = {"$gt": stretch.after, "$lt": stretch.before}
    wanted: Document = {"_id.t": stretch.tenant, "_id.i": stretch.id}
    key = [("_id.t", direction), ("_id.i", direction)]
    hint = POSITION
    if stretch.tag is not None:
        name, value = stretch.tag
        wanted[f"g.{name}"] = value
        key.append((f"g.{name}", direction))
        hint = tag_index(name)
    return Query({**wanted, "p": positions}, sort=[*key, ("p", direction)], limit=stretch.limit, hint=hint)


def _whole(stretch: MongoSpan, records: list[StoredRecord]) -> bool:
    """Whether nothing can be missing at the old end, where cold records are: they are older than all hot ones."""
    if not records:
        return False
    if stretch.reverse and len(records) == stretch.limit:
        return True
    return stretch.place(records[-1 if stretch.reverse else 0]) == stretch.after + 1


def _merged(stretch: MongoSpan, hot: Iterable[StoredRecord], cold: Iterable[StoredRecord]) -> list[StoredRecord]:
    by_version = {record.version: record for records in (cold, hot) for record in records}
    versions = sorted(by_version, reverse=stretch.reverse)
    return [by_version[version] for version in versions[: stretch.limit]]


async def _read_cold(database: Database, entity: AnyEntity, stretch: MongoSpan) -> list[StoredRecord]:
    """Chunks follow one another without overlap, by version and by position: one end of each is enough to seek by."""
    found: dict[int, StoredRecord] = {}
    bound = stretch.before if stretch.reverse else stretch.after
    while len(found) < stretch.limit:
        query = _cold_query(stretch, bound)
        with translated():
            chunks = await database.find(cold_of(entity.name), query)
        for chunk in chunks:
            first, last = _ends(stretch, chunk)
            if first >= stretch.before or last <= stretch.after:
                return _merged(stretch, found.values(), ())
            found |= {record.version: record for record in _wanted(stretch, chunk)}
            bound = first if stretch.reverse else last
        if len(chunks) < query.limit:
            break
    return _merged(stretch, found.values(), ())


def _cold_query(stretch: MongoSpan, bound: int) -> Query:
    """The next chunks in the direction of reading: by their last record forwards, by their first one backwards."""
    index = cold_index(by_position=stretch.by_position, first=stretch.reverse)
    field = COLD_KEYS[index][-1]
    where = {"_id.t": stretch.tenant, "_id.i": stretch.id, field: {"$lt" if stretch.reverse else "$gt": bound}}
    sort = [(name, stretch.direction) for name in COLD_KEYS[index]]
    return Query(where, sort=sort, limit=min(_CHUNKS_AT_ONCE, 1 + stretch.limit // CHUNK_RECORDS), hint=index)


def _ends(stretch: MongoSpan, chunk: Document) -> tuple[int, int]:
    if stretch.by_position:
        return chunk["p"]["first"], chunk["p"]["last"]
    return chunk["first"], chunk["_id"]["v"]


def _wanted(stretch: MongoSpan, chunk: Document) -> list[StoredRecord]:
    return matching(
        unpack(chunk["chunk"]),
        after=stretch.after,
        before=stretch.before,
        by_position=stretch.by_position,
        tag=stretch.tag,
    )
