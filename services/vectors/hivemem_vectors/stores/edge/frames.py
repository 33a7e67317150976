"""The frames between the store and the process of the engine: a JSON object and bytes behind it."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import orjson

from hivemem_vectors.stores.payloads import payload_of, point_key
from hivemem_vectors.stores.ports import Point

HEAD: Final = struct.Struct("<II")


class Frame(NamedTuple):
    fields: dict[str, Any]
    data: bytes


def encoded(fields: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Return a frame. Dataclasses among the fields become objects with the same fields."""
    text = orjson.dumps(fields)
    return HEAD.pack(len(text), len(data)) + text + data


def read_frame(pipe: BinaryIO) -> Frame | None:
    """Read the next frame; None if the other side has ended."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    text_bytes, data_bytes = HEAD.unpack(head)
    text, data = pipe.read(text_bytes), pipe.read(data_bytes)
    if len(data) < data_bytes:
        return None
    return Frame(orjson.loads(text), data)


def points_frame(points: Sequence[Point]) -> tuple[dict[str, Any], bytes]:
    dense = np.asarray([point.dense for point in points], np.float32)
    sparse = [point.sparse for point in points]
    fields = {
        "numbers": [point_key(point.tenant, point.id) for point in points],
        "payloads": [payload_of(point) for point in points],
        "terms": [0 if one is None else len(one.indices) for one in sparse],
    }
    indices = np.asarray([index for one in sparse if one is not None for index in one.indices], np.uint32)
    values = np.asarray([value for one in sparse if one is not None for value in one.values], np.float32)
    return fields, dense.tobytes() + indices.tobytes() + values.tobytes()


def points_of(
    fields: Mapping[str, Any], data: bytes
) -> Iterator[tuple[str, dict[str, Any], list[float], list[int], list[float]]]:
    """Yield each point's key, payload, dense vector, and terms with their weights."""
    numbers, terms = fields["numbers"], fields["terms"]
    all_terms = sum(terms)
    dense_bytes = len(data) - 8 * all_terms
    dense = np.frombuffer(data[:dense_bytes], np.float32).reshape(len(numbers), -1).tolist()
    indices = np.frombuffer(data, np.uint32, all_terms, dense_bytes).tolist()
    values = np.frombuffer(data, np.float32, all_terms, dense_bytes + 4 * all_terms).tolist()
    start = 0
    for number, payload, vector, count in zip(numbers, fields["payloads"], dense, terms, strict=True):
        end = start + count
        yield number, payload, vector, indices[start:end], values[start:end]
        start = end
