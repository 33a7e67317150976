"""The points of an item in the vector store: their names, and the values for filters and scores.

The name of a point contains its version: a late write never replaces a newer version, and a hit shows which version it
belongs to.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.keywords import document
from hivemem_vectors.pipeline.entities import Mirror
from hivemem_vectors.stores.ports import FieldKind, Point, Value

METADATA_FIELDS: Final = 64
"""The most fields of the metadata that a recall can filter by."""

WORD_CHARACTERS: Final = 256
"""The longest text in the metadata that a recall can filter by."""

FIELDS: Final[Mapping[str, FieldKind]] = {
    "below": "keyword",
    "place": "keyword",
    "metadata": "keyword",
    "memory_type": "keyword",
    "created_by": "keyword",
    "updated_at": "integer",
    "expires_at": "integer",
}
"""The values with an index in the store."""

_BETWEEN: Final = "\x00"


class PointName(NamedTuple):
    place: str
    version: int
    chunk: int


def point_name(place: str, version: int, chunk: int) -> str:
    return f"{place}{_BETWEEN}{version}{_BETWEEN}{chunk}"


def parsed(name: str) -> PointName:
    place, version, chunk = name.rsplit(_BETWEEN, 2)
    return PointName(place, int(version), int(chunk))


def names_of(place: str, version: int, chunks: int) -> list[str]:
    return [point_name(place, version, chunk) for chunk in range(chunks)]


def prefixes_of(place: str) -> list[str]:
    """Return all prefixes of the item's namespace: `user`, `user:alice`, …"""
    namespace, _ = namespace_and_key(place)
    segments = namespace.split(":")
    return [":".join(segments[:count]) for count in range(1, len(segments) + 1)]


def metadata_words(metadata: Mapping[str, Any]) -> list[str]:
    """Return one word for each short text, integer or boolean of the metadata."""
    words = [
        metadata_word(name, value)
        for name, value in metadata.items()
        if isinstance(value, str | int) and len(str(value)) <= WORD_CHARACTERS
    ]
    return words[:METADATA_FIELDS]


def metadata_word(name: str, value: str | int) -> str:
    """`1` and `true` differ; so do `1` and `"1"`."""
    return f"{name}={orjson.dumps(value).decode()}"


def values_of(place: str, version: int, fields: Mapping[str, Any], start: int, length: int) -> dict[str, Value]:
    """Return the values of a point from the `fields` of a mirror: `memory_type`, `created_by`, `updated_at`,
    `importance`, `valid_from`, `valid_to`, `expires_at` and `metadata`. Times are microseconds since 1970; missing
    values are left out."""
    kept: dict[str, Value] = {name: value for name, value in fields.items() if name != "metadata" and value is not None}
    return {
        **kept,
        "below": prefixes_of(place),
        "place": place,
        "metadata": metadata_words(fields.get("metadata", {})),
        "version": version,
        "start": start,
        "length": length,
    }


def points_of(tenant: str, place: str, mirror: Mirror, rows: Embeddings) -> list[Point]:
    """Return all points of an item, given the embeddings of its chunks."""
    assert mirror.version is not None
    assert len(rows) == len(mirror.texts)
    return [
        Point(
            tenant,
            point_name(place, mirror.version, chunk),
            rows[chunk],
            document(text),
            values_of(place, mirror.version, mirror.fields, start, len(text)),
        )
        for chunk, (text, start) in enumerate(zip(mirror.texts, mirror.starts, strict=True))
    ]
