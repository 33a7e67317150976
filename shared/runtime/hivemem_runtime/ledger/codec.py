"""Heads and records as JSON, with the schema number that they were written under."""

from typing import Any, cast

import orjson

from hivemem_runtime.ledger.entity import Entity, HeadT, RecordT


def encode(value: Any) -> bytes:
    return orjson.dumps(value)


def decode_head(entity: Entity[HeadT, RecordT], schema: int, body: bytes | str) -> HeadT:
    return entity.head(**_current(entity, "head", schema, body))


def decode_record(entity: Entity[HeadT, RecordT], schema: int, body: bytes | str) -> RecordT:
    return entity.record(**_current(entity, "record", schema, body))


def _current(entity: Entity[HeadT, RecordT], kind: str, schema: int, body: bytes | str) -> dict[str, Any]:
    fields = cast("dict[str, Any]", orjson.loads(body))
    if schema == entity.schema:
        return fields
    if schema > entity.schema:
        raise ValueError(f"{entity.name}: a {kind} has schema {schema}, this release knows {entity.schema}")
    if entity.upcast is None:
        raise ValueError(f"{entity.name}: a {kind} has schema {schema} and nothing brings it up to {entity.schema}")
    return entity.upcast(kind, schema, fields)
