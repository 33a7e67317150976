"""The points of an item in the vector store: their names, and the values for filters and scores.

The name of a point contains its version: a late write never replaces a newer version, and a hit shows which version it
belongs to.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from hivemem_runtime.ledger.places import namespace_and_key
from hivemem_vectors.embedders.ports import Embeddings
from hivemem_vectors.pipeline.decisions.keywords import SCHEME, TextWords, sparse, text_words
from hivemem_vectors.pipeline.entities import Mirror, is_event, session_of
from hivemem_vectors.stores.ports import FieldKind, Point, Value, Vector

METADATA_FIELDS: Final = 64
"""The most fields of the metadata that a recall can filter by."""

VALUE_FIELDS: Final = 64
"""The most fields of the value that a recall can filter by."""

WORD_CHARACTERS: Final = 256
"""The longest text in the metadata or the value that a recall can filter by."""

FIELDS: Final[Mapping[str, FieldKind]] = {
    "below": "keyword",
    "place": "keyword",
    "metadata": "keyword",
    "value": "keyword",
    "memory_type": "keyword",
    "kind": "keyword",
    "session": "keyword",
    "scope": "keyword",
    "turn": "keyword",
    "scheme": "integer",
    "created_by": "keyword",
    "updated_at": "integer",
    "expires_at": "integer",
}
"""The values with an index in the store. `kind`, `session`, `scope` and `turn` are those of events."""

EVENT: Final = "event"
ALONE: Final = 0
"""The scheme of an event to which its neighbours have lent nothing yet (see `decisions.dialogue`)."""

ASKS: Final = "asks"
NAMES_TIME: Final = "names_time"
"""Traits of a text that hint at what it answers."""

_TIME: Final = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|last|next|week|weekend|month|year"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|since|recently|soon|(?:19|20)\d\d|\d+(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
_BETWEEN: Final = "\x00"
_EXACT: Final = 2**53
"""From here on, floats are not exact integers."""
_MIRRORED_ONLY: Final = ("metadata", "value", "committed_at")


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


def value_words(fields: Mapping[str, str | float | None]) -> list[str]:
    """Return one word for each of these fields of a value. Equal numbers have one word, `1` and `1.0` too."""
    return [_value_word(name, value) for name, value in fields.items()]


def _value_word(name: str, value: str | float | None) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    return f"{name}={orjson.dumps(value).decode()}"


def scope_words(user_id: str | None, app_name: str | None, project_id: str | None) -> list[str]:
    """Return a word for each scope that is given."""
    scopes = (("user", user_id), ("app", app_name), ("project", project_id))
    return [f"{kind}={id}" for kind, id in scopes if id is not None]


def turn_of(session_id: str, sequence: int) -> str:
    """Return the value by which an event is found from its neighbours."""
    return f"{session_id}{_BETWEEN}{sequence}"


def traits_of(text: str) -> list[str]:
    """Return what hints at the questions that a text answers."""
    found = [ASKS] if text.rstrip().endswith("?") else []
    return [*found, NAMES_TIME] if _TIME.search(text) else found


def values_of(place: str, version: int, fields: Mapping[str, Any], start: int, length: int) -> dict[str, Value]:
    """Return the values of a point from the `fields` of a mirror: `memory_type`, `created_by`, `updated_at`,
    `importance`, `valid_from`, `valid_to`, `expires_at`, `metadata`, `value` of a memory, `scope` and `committed_at` of
    an event. Times are microseconds since 1970; missing values are left out."""
    kept: dict[str, Value] = {
        name: value for name, value in fields.items() if name not in _MIRRORED_ONLY and value is not None
    }
    if value := fields.get("value"):
        kept["value"] = value_words(value)
    if is_event(place):
        session_id = session_of(place)
        kept |= {"kind": EVENT, "session": session_id, "turn": turn_of(session_id, version)}
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
        point_of(tenant, place, mirror, chunk, rows[chunk], text_words(text), ALONE if is_event(place) else SCHEME)
        for chunk, text in enumerate(mirror.texts)
    ]


def point_of(tenant: str, place: str, mirror: Mirror, chunk: int, row: Vector, words: TextWords, scheme: int) -> Point:
    """Return the point of a chunk, given its vector and its words, and the scheme of these."""
    assert mirror.version is not None
    text, start = mirror.texts[chunk], mirror.starts[chunk]
    values = values_of(place, mirror.version, mirror.fields, start, len(text))
    values |= {"words": words.words, "traits": traits_of(text), "scheme": scheme}
    return Point(tenant, point_name(place, mirror.version, chunk), row, sparse(words.weights), values)
