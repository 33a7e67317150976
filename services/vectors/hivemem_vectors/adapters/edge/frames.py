"""What goes over the pipes between the store and the process of the engine: a JSON object and bytes behind it."""

import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

HEAD: Final = struct.Struct("<II")


class Frame(NamedTuple):
    fields: dict[str, Any]
    data: bytes


def encoded(fields: Mapping[str, Any], data: bytes = b"") -> bytes:
    text = orjson.dumps(fields)
    return HEAD.pack(len(text), len(data)) + text + data


def read_frame(pipe: BinaryIO) -> Frame | None:
    """The next one; None where the other side has ended."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    text_bytes, data_bytes = HEAD.unpack(head)
    text, data = pipe.read(text_bytes), pipe.read(data_bytes)
    if len(data) < data_bytes:
        return None
    return Frame(orjson.loads(text), data)
