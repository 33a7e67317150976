"""The entities of the pipeline: items with their progress, their mirrors, and followed sessions.

An item is a memory, or an event of a session. Its id is its place. The place of an event is in the namespace
`session:<id>`, where no memory can have it, because its key begins with a control character. A colon in the session's
id becomes a control character, too, so that no prefix of another session covers it.

The mirror has everything that an item's points are made of, so that the index can be made again without a model, and
recall works without the index.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Scalar, Stamp, record_entity
from hivemem_runtime.ledger.places import namespace_and_key, place_of
from hivemem_vectors.embedders.ports import Embeddings

_EVENT: Final = "\x01"
_AFTER_EVENTS: Final = "\x02"
_COLON: Final = "\x04"
SYNCED: Final = "synced"
PENDING: Final = "pending"
STALE: Final = "stale"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Item:
    """The progress of the index with an item. `heard` is the newest known version, and `gone` whether that is a
    deletion. `indexed` is the version that recall finds, in `chunks` points, or None.

    `retry_at` is the time of the next try in microseconds since 1970; None if nothing is left to do. `told` counts the
    item's announcements, and `announced` is what this record announces. `erased` are the last versions that were
    erasures with a receipt, each of which is counted.
    """

    heard: int
    gone: bool
    state: str
    indexed: int | None = None
    chunks: int = 0
    attempts: int = 0
    error: str | None = None
    retry_at: int | None = None
    told: int = 0
    announced: str | None = None
    updated_at: int = 0
    erased: list[int] = field(default_factory=list[int])


def _namespace_of(session_id: str) -> str:
    return "session:" + session_id.replace(":", _COLON)


def event_place(session_id: str, event_id: str) -> str:
    return place_of(_namespace_of(session_id), _EVENT + event_id)


def is_event(place: str) -> bool:
    return _EVENT + _EVENT in place


def places_of(namespace: str, key: str) -> list[str]:
    """Return the places that a name can mean: that of a memory, and in a session's own namespace that of an event."""
    session_id = session_named(namespace)
    return [place_of(namespace, key), *(() if session_id is None else (event_place(session_id, key),))]


def session_of(place: str) -> str:
    """The session of an event."""
    return namespace_and_key(place)[0].removeprefix("session:").replace(_COLON, ":")


def session_named(namespace: str) -> str | None:
    """Return the session whose own namespace this is; None for any other namespace."""
    session_id = namespace.removeprefix("session:")
    return None if session_id == namespace or ":" in session_id else session_id


def events_of(session_id: str) -> tuple[str, str]:
    """Return the range of places of a session's events: the first one, and the end, which is not part of it."""
    namespace = place_of(_namespace_of(session_id))
    return namespace + _EVENT, namespace + _AFTER_EVENTS


def named(place: str) -> tuple[str, str]:
    """Return the namespace and key of a place, as clients name it."""
    namespace, key = namespace_and_key(place)
    return namespace.replace(_COLON, ":"), (key or "").removeprefix(_EVENT)


def status_fields(place: str, item: Item, at: int) -> dict[str, object]:
    """Return an item's status as the feed and answers contain it."""
    namespace, key = named(place)
    return {
        "namespace": namespace,
        "key": key,
        "version": item.heard,
        "indexed_version": item.indexed,
        "state": item.state,
        "error": item.error,
        "attempts": item.attempts,
        "updated_at": format_microseconds(at),
    }


def _announce(record: Item, stamp: Stamp) -> tuple[Announcement, ...]:
    """Announce memories only: an event's address could be a memory's, which counts its own versions."""
    if record.announced is None or is_event(stamp.id):
        return ()
    namespace, key = named(stamp.id)
    value = status_fields(stamp.id, record, stamp.at)
    address = Address(tuple(namespace.split(":")), key)
    return (
        Announcement("index", record.announced, address, namespace, record.told, record.told - 1 or None, value, key),
    )


def _index(head: Item) -> Mapping[str, Scalar]:
    return {
        "heard": head.heard,
        "indexed": head.indexed,
        "gone": head.gone,
        "state": head.state,
        "shown": None if head.gone and head.state == SYNCED else head.state,
        "waiting": head.state != SYNCED,
        "retry_at": head.retry_at,
    }


ITEM: Final = Entity(
    name="item",
    head=Item,
    record=Item,
    evolve=lambda head, record, stamp: replace(record, updated_at=stamp.at),
    announce=_announce,
    told_as={"index": place_of},
    indexed=_index,
    indexes=(
        Index("all", (), None, covering=("heard", "indexed", "gone", "state")),
        # Without what is gone and done: nobody asks for that.
        Index("state", ("shown",), None),
        Index("waiting", (), None, only="waiting"),
        Index("retry", (), "retry_at"),
    ),
    snapshot_every=1,
)


@dataclass(frozen=True, slots=True)
class Mirror:
    """Everything that an item's points are made of. `fields` are the values for filters and scores (see
    `decisions.points`), `texts` the chunks, and `starts` their positions in the item's text. `embeddings` has a packed
    row for each chunk, made by `model`; it is None until the embedder answers. `value` is that of an event; a memory's
    value is read from the memory service.

    A mirror without a version is that of a deleted item.
    """

    version: int | None = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    texts: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    model: str | None = None
    embeddings: str | None = None
    value: Any = None


def packed(rows: Embeddings) -> str:
    """Return embeddings in base64 and half precision, which changes a cosine in its fourth digit."""
    return base64.b64encode(rows.astype("<f2").tobytes()).decode("ascii")


def unpacked(embeddings: str, rows: int) -> Embeddings:
    return np.frombuffer(base64.b64decode(embeddings), "<f2").reshape(rows, -1).astype(np.float32)


MIRROR: Final = record_entity("mirror", Mirror, history=False)


@dataclass(frozen=True, slots=True)
class Followed:
    """Whether a session's events are indexed; only for sessions that ask for it, or did before they were `gone`.
    `since` is the session's beginning in microseconds since 1970: an older event belongs to a deleted session with the
    same id. `revision` is the session's at which this was so: earlier changes come too late. `scope` has the session's
    user, app and project as words of `decisions.points`."""

    indexes: bool
    gone: bool = False
    since: int = 0
    revision: int = 0
    scope: list[str] = field(default_factory=list[str])


FOLLOWED: Final = record_entity("followed", Followed, history=False)
