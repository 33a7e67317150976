"""Heads and records as JSON, packed where they are large, with the schema number that they were written under."""

import zlib
from typing import Any, Final, cast

import orjson

from hivemem_runtime.ledger.entity import Entity, HeadT, RecordT

_PLAIN_BYTES: Final = 8 * 1024
"""A body of more is packed, if that makes it smaller by a tenth at least: reading it costs a little time then."""


def dump(value: Any) -> bytes:
    """The JSON of a dataclass."""
    return orjson.dumps(value)


def squeeze(body: bytes) -> bytes:
    """JSON as it is kept: it begins with a brace, and what zlib makes of it never does."""
    if len(body) > _PLAIN_BYTES:
        packed = zlib.compress(body, 1)
        if len(packed) * 10 <= len(body) * 9:
            return packed
    return body


def encode(value: Any) -> bytes:
    return squeeze(orjson.dumps(value))


def is_packed(body: bytes | str) -> bool:
    return isinstance(body, bytes) and not body.startswith(b"{")


def plain(body: bytes | str) -> bytes | str:
    """The JSON of an encoded body."""
    return zlib.decompress(cast("bytes", body)) if is_packed(body) else body


def decode_head(entity: Entity[HeadT, RecordT], schema: int, body: bytes | str) -> HeadT:
    return entity.head(**_current(entity, "head", schema, body))


def decode_record(entity: Entity[HeadT, RecordT], schema: int, body: bytes | str) -> RecordT:
    return entity.record(**_current(entity, "record", schema, body))


def _current(entity: Entity[HeadT, RecordT], kind: str, schema: int, body: bytes | str) -> dict[str, Any]:
    fields = cast("dict[str, Any]", orjson.loads(plain(body)))
    if schema == entity.schema:
        return fields
    if schema > entity.schema:
        raise ValueError(f"{entity.name}: a {kind} has schema {schema}, this release knows {entity.schema}")
    if entity.upcast is None:
        raise ValueError(f"{entity.name}: a {kind} has schema {schema} and nothing brings it up to {entity.schema}")
    return entity.upcast(kind, schema, fields)
