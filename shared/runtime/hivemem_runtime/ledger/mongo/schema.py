"""Collections and indexes, made from what the entities declare, and the migrations of older data."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hivemem_runtime.ledger.codec import decode_head, decode_record
from hivemem_runtime.ledger.entity import AnyEntity, Index
from hivemem_runtime.ledger.mongo.documents import META, PURGES, REQUESTS, cold_of, heads_of, indexed_fields, records_of
from hivemem_runtime.ledger.mongo.driver import MAJORITY, Database, Document, Query
from hivemem_runtime.ledger.refusals import DataTooNew, UnfitServer

DATA_VERSION: Final = 3
"""Raised by one with each change to how things are kept; `MIGRATIONS[n]` brings data of version n to n + 1."""


async def _add_compression(_database: Database) -> None:
    """Large bodies may be compressed from this version on, which older releases cannot read. Existing bodies stay."""


async def _keep_digests(_database: Database) -> None:
    """Requests have a digest of their body from this version on. Existing ones have none, and match any body."""


MIGRATIONS: Final[Mapping[int, Callable[[Database], Awaitable[None]]]] = {1: _add_compression, 2: _keep_digests}

DUE: Final = "due"
TENANT: Final = "tenant"
STAMPED: Final = "stamped"
MOMENT: Final = "moment"
POSITION: Final = "position"
COLD_BY_TIME: Final = "at"
COLD_KEYS: Final[Mapping[str, Sequence[str]]] = {
    name: ("_id.t", "_id.i", field)
    for name, field in {
        "first_version": "first",
        "last_version": "_id.v",
        "first_position": "p.first",
        "last_position": "p.last",
        COLD_BY_TIME: "at",
    }.items()
}
_OLDEST_WIRE_VERSION: Final = 25
_FILLED_AT_ONCE: Final = 500

_REQUEST_INDEXES: Final[Mapping[str, Document]] = {
    "forget": {
        "key": {"until": 1},
        "partialFilterExpression": {"until": {"$exists": True}},
        "expireAfterSeconds": 0,
    },
    "nothing_done": {"key": {"entity": 1, "t": 1, "i": 1}, "partialFilterExpression": {"v": 0}},
    STAMPED: {"key": {"entity": 1, "t": 1, "i": 1}, "partialFilterExpression": {"at": {"$exists": True}}},
}
"""A request that appended something is found by its record's list; one that did not, or whose record is not kept, by
its key."""


def find_index(index: Index) -> str:
    return f"find_{index.name}"


def tag_index(tag: str) -> str:
    return f"tag_{tag}"


def cold_index(*, by_position: bool, first: bool) -> str:
    return f"{'first' if first else 'last'}_{'position' if by_position else 'version'}"


def find_key(index: Index) -> list[str]:
    return ["_id.t", *map(_field, _ordered(index)), "_id.i", *map(_field, index.covering)]


def find_condition(index: Index) -> Document:
    """Return the condition of a partial index. An erased key has no index fields at all."""
    condition: Document = {_field(name): {"$exists": True} for name in _ordered(index)}
    if index.only:
        condition[_field(index.only)] = True
    return condition or {"x": {"$exists": True}}


def keeps_moments(entity: AnyEntity) -> bool:
    """Whether records are found by their time in an index. Only where each of them holds all of its head: elsewhere
    one alone tells little, and most entities write far more records than they ever read as of a moment."""
    return entity.history and entity.snapshot_every == 1


def _ordered(index: Index) -> Sequence[str]:
    return index.equals if index.order is None else (*index.equals, index.order)


def _field(name: str) -> str:
    return f"x.{name}"


async def prepare(database: Database, entities: Sequence[AnyEntity]) -> None:
    """Create what is missing and migrate what is old. May run in several processes at once."""
    await _check_server(database)
    await _migrate(database)
    await _require(database, REQUESTS, _REQUEST_INDEXES)
    await _require(database, PURGES, {})
    for entity in entities:
        await _prepare_entity(database, entity)


async def _check_server(database: Database) -> None:
    hello = await database.command({"hello": 1}, admin=True)
    if hello.get("maxWireVersion", 0) < _OLDEST_WIRE_VERSION:
        raise UnfitServer("the ledger needs MongoDB 8.0 or later")
    if "setName" not in hello:
        raise UnfitServer("the ledger needs a MongoDB that runs as a replica set, be it of one node")


async def _migrate(database: Database) -> None:
    found = await database.find(META, Query({"_id": "data"}))
    version = found[0]["version"] if found else DATA_VERSION
    if version > DATA_VERSION:
        raise DataTooNew(
            f"the data has version {version}, this release of Hivemem knows {DATA_VERSION}: use a newer one"
        )
    for step in range(version, DATA_VERSION):
        await MIGRATIONS[step](database)
        await _remember(database, "data", {"version": step + 1})
    if not found:
        await _remember(database, "data", {"version": DATA_VERSION})


async def _prepare_entity(database: Database, entity: AnyEntity) -> None:
    identity = f"entity/{entity.name}"
    found = await database.find(META, Query({"_id": identity}))
    known = found[0] if found else None
    if known is not None and known["schema"] > entity.schema:
        raise DataTooNew(f"{entity.name}: the data has schema {known['schema']}, this release knows {entity.schema}")
    wanted: Document = {
        "schema": entity.schema,
        "fields": sorted(entity.index_fields),
        "tags": sorted(entity.tag_fields),
    }
    if known is not None:
        if known["schema"] != entity.schema or known["fields"] != wanted["fields"]:
            await _fill_heads(database, entity)
        if known["tags"] != wanted["tags"]:
            await _fill_tags(database, entity)
    needed = [_require(database, heads_of(entity.name), _head_indexes(entity))]
    if entity.history:
        needed.append(_require(database, records_of(entity.name), _record_indexes(entity)))
        needed.append(_require(database, cold_of(entity.name), _cold_indexes()))
    await asyncio.gather(*needed)
    if known is None or {name: known[name] for name in wanted} != wanted:
        await _remember(database, identity, wanted)


def _head_indexes(entity: AnyEntity) -> dict[str, Document]:
    wanted: dict[str, Document] = {TENANT: {"key": {"_id.t": 1}}}
    if entity.history:
        wanted[DUE] = {"key": {"at": 1}, "partialFilterExpression": {"due": True}}
    for index in entity.indexes:
        condition = find_condition(index)
        wanted[find_index(index)] = {
            "key": dict.fromkeys(find_key(index), 1),
            "partialFilterExpression": condition,
        }
    return wanted


def _record_indexes(entity: AnyEntity) -> dict[str, Document]:
    wanted: dict[str, Document] = {}
    if keeps_moments(entity):
        wanted[MOMENT] = {"key": {"_id.t": 1, "_id.i": 1, "at": 1}}
    if entity.position is not None:
        wanted[POSITION] = _index(["_id.t", "_id.i", "p"], exists="p")
        wanted |= {tag_index(tag): _index(["_id.t", "_id.i", f"g.{tag}", "p"], exists="p") for tag in entity.tag_fields}
    return wanted


def _cold_indexes() -> dict[str, Document]:
    return {name: _index(key, exists=key[-1]) for name, key in COLD_KEYS.items()}


def _index(fields: Sequence[str], *, exists: str) -> Document:
    return {"key": dict.fromkeys(fields, 1), "partialFilterExpression": {exists: {"$exists": True}}}


async def _require(database: Database, collection: str, wanted: Mapping[str, Document]) -> None:
    """Make the collection and its indexes as wanted: what is not declared any more, or otherwise, goes."""
    there = await database.indexes(collection)
    if not there:
        await database.create_collection(collection)
    for name, found in there.items():
        if name != "_id_" and not _same(found, wanted.get(name)):
            await database.drop_index(collection, name)
    missing = [{"name": name, **index} for name, index in wanted.items() if not _same(there.get(name), index)]
    if missing:
        await database.command({"createIndexes": collection, "indexes": missing, "writeConcern": MAJORITY})


def _same(found: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> bool:
    if found is None or wanted is None:
        return False
    return list(found["key"].items()) == list(wanted["key"].items()) and all(
        found.get(option) == value for option, value in wanted.items() if option != "key"
    )


async def _remember(database: Database, identity: str, fields: Document) -> None:
    update = {"q": {"_id": identity}, "u": {"$set": fields}, "upsert": True}
    await database.command({"update": META, "updates": [update], "writeConcern": MAJORITY})


async def _fill_heads(database: Database, entity: AnyEntity) -> None:
    """Index fields follow from the head as this release reads it. A head that is written meanwhile has them already."""
    updates: list[Document] = []
    query = Query({"erased": {"$exists": False}}, fields={"version": 1, "schema": 1, "body": 1})
    async with database.stream(heads_of(entity.name), query) as heads:
        async for head in heads:
            value = decode_head(entity, head["schema"], head["body"])
            same = {"_id": head["_id"], "version": head["version"]}
            updates.append({"q": same, "u": {"$set": {"x": indexed_fields(entity, value)}}})
            if len(updates) == _FILLED_AT_ONCE:
                await _update(database, heads_of(entity.name), updates)
    await _update(database, heads_of(entity.name), updates)


async def _fill_tags(database: Database, entity: AnyEntity) -> None:
    if entity.tags is None:
        return
    updates: list[Document] = []
    query = Query({"p": {"$exists": True}}, fields={"schema": 1, "body": 1})
    async with database.stream(records_of(entity.name), query) as records:
        async for record in records:
            tags = entity.tags(decode_record(entity, record["schema"], record["body"]))
            given = {name: value for name, value in tags.items() if value is not None}
            updates.append({"q": {"_id": record["_id"]}, "u": {"$set": {"g": given}}})
            if len(updates) == _FILLED_AT_ONCE:
                await _update(database, records_of(entity.name), updates)
    await _update(database, records_of(entity.name), updates)


async def _update(database: Database, collection: str, updates: list[Document]) -> None:
    if updates:
        command = {"update": collection, "updates": updates, "ordered": False, "writeConcern": MAJORITY}
        await database.command(command)
        updates.clear()
