"""A record as a store keeps it, and the packing of many into one cold chunk."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import orjson

from hivemem_runtime.ledger.codec import decode_head, decode_record, dump, encode, plain
from hivemem_runtime.ledger.entity import Entity, HeadT, RecordT, Stamp
from hivemem_runtime.ledger.port import Record

CHUNK_RECORDS: Final = 256
"""How many records one cold chunk holds: a page from cold storage unpacks a few of these."""


class StoredRecord(NamedTuple):
    version: int
    at: int
    actor: str
    cause: str | None
    traceparent: str | None
    schema: int
    body: bytes | str
    snapshot: bytes | str | None
    position: int | None
    tags: Mapping[str, str | None]

    def read(self, entity: Entity[HeadT, RecordT], tenant: str, id: str) -> Record[RecordT]:
        stamp = Stamp(tenant, entity.name, id, self.version, self.at, self.actor, self.cause, self.traceparent)
        snapshot = None if self.snapshot is None else decode_head(entity, self.schema, self.snapshot)
        return Record(stamp, decode_record(entity, self.schema, self.body), snapshot)


def store(entity: Entity[HeadT, RecordT], stamp: Stamp, record: RecordT, head: HeadT) -> StoredRecord | None:
    """The stored form of a new record; with a snapshot of the head after it where one is due. None where records are
    not kept: then the head is what has to be fit to be stored, be it that the next write of the batch replaces it."""
    if not entity.history:
        dump(head)
        return None
    every = entity.snapshot_every
    position = entity.position(record) if entity.position else None
    return StoredRecord(
        stamp.version,
        stamp.at,
        stamp.actor,
        stamp.cause,
        stamp.traceparent,
        entity.schema,
        encode(record),
        encode(head) if every > 1 and stamp.version % every == 0 else None,
        position,
        entity.tags(record) if position is not None and entity.tags else {},
    )


def pack(records: Sequence[StoredRecord]) -> bytes:
    """Return records, oldest first, as one compressed chunk. Packed bodies are unpacked first: together they compress
    better."""
    rows = [
        (
            record.version,
            record.at,
            record.actor,
            record.cause,
            record.traceparent,
            record.schema,
            orjson.Fragment(plain(record.body)),
            None if record.snapshot is None else orjson.Fragment(plain(record.snapshot)),
            record.position,
            dict(record.tags),
        )
        for record in records
    ]
    return zlib.compress(orjson.dumps(rows), 6)


def unpack(chunk: bytes) -> list[StoredRecord]:
    rows = cast("list[list[Any]]", orjson.loads(zlib.decompress(chunk)))
    return [_unpacked(*row) for row in rows]


def _unpacked(
    version: int,
    at: int,
    actor: str,
    cause: str | None,
    traceparent: str | None,
    schema: int,
    body: Any,
    snapshot: Any,
    position: int | None,
    tags: dict[str, str | None],
) -> StoredRecord:
    kept = None if snapshot is None else orjson.dumps(snapshot)
    return StoredRecord(version, at, actor, cause, traceparent, schema, orjson.dumps(body), kept, position, tags)


def matching(
    records: Iterable[StoredRecord], *, after: int, before: int | None, by_position: bool, tag: tuple[str, str] | None
) -> list[StoredRecord]:
    """Those of an unpacked chunk that a `history` call means, in their order."""
    found: list[StoredRecord] = []
    for record in records:
        place = record.position if by_position else record.version
        if place is None or place <= after or (before is not None and place >= before):
            continue
        if tag is None or record.tags.get(tag[0]) == tag[1]:
            found.append(record)
    return found
