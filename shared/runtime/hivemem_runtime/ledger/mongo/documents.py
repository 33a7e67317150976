"""The documents that are kept, and the way from them to heads and records.

A head:   _id {t: tenant, i: id}, version, at, announced, due?, schema, body, x {index fields},
          erased?, actor?, cause? (of an erased one), guard? (the last attempt that relied on it)
A record: _id {t, i, v: version}, at, actor, cause?, trace?, schema, body, snapshot?, p? (position), g? {tags},
          q? [ids that go when it is erased], commit? (which attempt wrote it)
A chunk:  _id {t, i, v: last version}, first, at (of the first record), p? {first, last}, q?, chunk
A request: _id, entity, t, i, v (the record that it appended first, or 0), held (the version with it in its q),
          until? (when it may be forgotten; none: with its key), or spent instead of a place: that record was erased;
          at, actor, cause?, trace? (of that record, where no records are kept), d? (a digest of the command)
A trace, among the requests: _id, until (see `traces`)
A purge:  _id {e: entity, t, i}, through, keep (an erasure whose records are still to be removed)

Bodies are JSON text, or packed JSON where they are large: no key of a caller's can be wrong for MongoDB, and a shell
still shows most of them. What an index or a range of `_id` needs has a short name, because it stands there in every
document.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.ledger.codec import decode_head, is_packed
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Scalar, Stamp
from hivemem_runtime.ledger.mongo.driver import Document
from hivemem_runtime.ledger.port import Head, RequestId, Write
from hivemem_runtime.ledger.stored import StoredRecord, pack

META: Final = "meta"
REQUESTS: Final = "requests"
PURGES: Final = "purges"
REQUEST: Final = "request"
ONCE: Final = "once"
HIGHEST_VERSION: Final = 2**62
_INTEGERS: Final = range(-(2**63), 2**63)


def heads_of(entity: str) -> str:
    return f"{entity}_heads"


def records_of(entity: str) -> str:
    return f"{entity}_records"


def cold_of(entity: str) -> str:
    return f"{entity}_cold"


def head_id(tenant: str, id: str) -> Document:
    return {"t": tenant, "i": id}


def record_id(tenant: str, id: str, version: int) -> Document:
    return {"t": tenant, "i": id, "v": version}


def trace_id(token: str) -> str:
    return f"trace/{token}"


def purge_id(entity: str, tenant: str, id: str) -> Document:
    return {"e": entity, "t": tenant, "i": id}


def versions_between(tenant: str, id: str, after: int, before: int) -> Document:
    """Identities of records of one key, both bounds excluded. They compare field by field, in this order."""
    return {"$gt": record_id(tenant, id, after), "$lt": record_id(tenant, id, before)}


def indexed_fields(entity: AnyEntity, value: Any) -> dict[str, Scalar]:
    """A field without a value is left out, which keeps its head out of the indexes on that field."""
    found = entity.indexed(value)
    fields: dict[str, Scalar] = {}
    for name in entity.index_fields:
        given = found.get(name)
        if given is not None:
            if isinstance(given, int) and given not in _INTEGERS:
                raise InvalidRequest(f"{name}: {given} has more than 64 bits", field=name)
            fields[name] = given
    return fields


def head_from(entity: Entity[HeadT, RecordT], document: Mapping[str, Any]) -> Head[HeadT]:
    value = None if "erased" in document else decode_head(entity, document["schema"], document["body"])
    return Head(document["_id"]["i"], document["version"], document["at"], value)


def record_document(stamp: Stamp, record: StoredRecord) -> Document:
    document: Document = {
        "_id": record_id(stamp.tenant, stamp.id, stamp.version),
        "at": stamp.at,
        "actor": stamp.actor,
        "schema": record.schema,
        "body": stored_body(record.body),
    }
    if record.cause is not None:
        document["cause"] = record.cause
    if record.traceparent is not None:
        document["trace"] = record.traceparent
    if record.snapshot is not None:
        document["snapshot"] = stored_body(record.snapshot)
    if record.position is not None:
        document["p"] = record.position
        if record.tags:
            document["g"] = {name: value for name, value in record.tags.items() if value is not None}
    return document


def record_from(document: Mapping[str, Any]) -> StoredRecord:
    return StoredRecord(
        document["_id"]["v"],
        document["at"],
        document["actor"],
        document.get("cause"),
        document.get("trace"),
        document["schema"],
        document["body"],
        document.get("snapshot"),
        document.get("p"),
        cast("dict[str, str | None]", document.get("g", {})),
    )


def chunk_document(tenant: str, id: str, records: Sequence[StoredRecord], requests: Sequence[str]) -> Document:
    positions = [record.position for record in records if record.position is not None]
    document: Document = {
        "_id": record_id(tenant, id, records[-1].version),
        "first": records[0].version,
        "at": records[0].at,
        "chunk": pack(records),
    }
    if positions:
        document["p"] = {"first": positions[0], "last": positions[-1]}
    if requests:
        document["q"] = list(requests)
    return document


class MongoIdentity(NamedTuple):
    name: str
    as_long_as_key: bool
    digest: bytes | None


class MongoIdentities(NamedTuple):
    own: list[MongoIdentity]
    part_of: MongoIdentity | None
    elsewhere: str | None
    """What may answer, if it wrote to the same key."""

    @property
    def names(self) -> list[str]:
        found = [identity.name for identity in self.own]
        if self.part_of is not None:
            found.append(self.part_of.name)
        if self.elsewhere is not None:
            found.append(self.elsewhere)
        return found


def identities_of(write: Write) -> MongoIdentities:
    """What a write is remembered under. An event id belongs to its key."""
    tenant = write.tenant
    own = [] if write.request_id is None else [_identity(tenant, write.request_id)]
    if write.once is not None:
        own.append(MongoIdentity(f"{once_path(write.entity.name, tenant, write.id)}/{write.once}", True, None))
    return MongoIdentities(
        own,
        None if write.part_of is None else _identity(tenant, write.part_of),
        None if write.answered_by is None else _request_name(tenant, write.answered_by),
    )


def _identity(tenant: str, request: RequestId) -> MongoIdentity:
    return MongoIdentity(_request_name(tenant, request.name), request.as_long_as_key, request.digest)


def _request_name(tenant: str, name: str) -> str:
    return f"{REQUEST}/{_part(tenant)}/{name}"


def below(path: str) -> Document:
    """The range of the identities that begin with a path and a separator; the sign after the separator ends it."""
    return {"$gte": f"{path}/", "$lt": f"{path}0"}


def once_path(entity: str, tenant: str, id: str) -> str:
    """What all event ids of a key are below."""
    return f"{ONCE}/{_part(entity)}/{_part(tenant)}/{_part(id)}"


def request_document(identity: str, place: tuple[str, str, str, int], held: int, stamp: Stamp | None) -> Document:
    """`place` is entity, tenant, id and version of the record that answers; `stamp` is its own where it is not kept."""
    entity, tenant, id, version = place
    document: Document = {"_id": identity, "entity": entity, "t": tenant, "i": id, "v": version, "held": held}
    if stamp is not None:
        document |= {"at": stamp.at, "actor": stamp.actor}
        if stamp.cause is not None:
            document["cause"] = stamp.cause
        if stamp.traceparent is not None:
            document["trace"] = stamp.traceparent
    return document


def kept_stamp(request: Mapping[str, Any]) -> Stamp | None:
    """Of the record that answers, where it is not kept."""
    if "at" not in request:
        return None
    return Stamp(
        request["t"],
        request["entity"],
        request["i"],
        request["v"],
        request["at"],
        request["actor"],
        request.get("cause"),
        request.get("trace"),
    )


def is_once(identity: str) -> bool:
    return identity.startswith(f"{ONCE}/")


def _part(text: str) -> str:
    """Free of the separator, so that no two different ids make the same whole."""
    return text.replace("%", "%25").replace("/", "%2F") if "/" in text or "%" in text else text


def stored_body(body: bytes | str) -> bytes | str:
    return body if isinstance(body, str) or is_packed(body) else body.decode()
