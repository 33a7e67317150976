"""An item: a memory, or an event of a session, and how far the index is with it. Its id is its place.

The place of an event is one of the namespace `session:<id>` that no memory can have, for its key begins with a control
character.
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
SYNCED: Final = "synced"
PENDING: Final = "pending"
STALE: Final = "stale"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Item:
    """Head and record alike. `heard` is the newest version that the feed has told of, and `gone` whether that one is a
    deletion; `indexed` the version that is found, in as many points as `chunks`, None where none is.

    `retry_at` is when it is tried again, in microseconds since 1970; None where nothing is left to do. `told` counts
    its announcements, and `announced` is what this record announces, if anything. `erased` are the last
    versions that were erasures with a receipt, each of which is counted.
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


def event_place(session_id: str, event_id: str) -> str:
    return place_of(f"session:{session_id}", _EVENT + event_id)


def is_event(place: str) -> bool:
    return _EVENT + _EVENT in place


def session_of(place: str) -> str:
    """The session of an event."""
    return namespace_and_key(place)[0].removeprefix("session:")


def events_of(session_id: str) -> tuple[str, str]:
    """The range of the places of a session's events: the first one, and the end, which is not in it."""
    namespace = place_of(f"session:{session_id}")
    return namespace + _EVENT, namespace + _AFTER_EVENTS


def named(place: str) -> tuple[str, str]:
    """Namespace and key as they travel."""
    namespace, key = namespace_and_key(place)
    return namespace, (key or "").removeprefix(_EVENT)


def status_fields(place: str, item: Item, at: int) -> dict[str, object]:
    """An item's status as it travels, on the feed and in answers."""
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
    """Of memories alone: an event's address could be a memory's, which counts its own versions."""
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
    """Head and record alike. `fields` are what filters and scores look at (see `decisions.points`), `texts` the chunks
    and `starts` where each begins in the item's text. `embeddings` has a packed row for each of them, made by `model`;
    none while the embedder could not be had. `value` is that of an event; a memory's own is asked for where it lives.

    Without a version there is nothing: the item is gone.
    """

    version: int | None = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    texts: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    model: str | None = None
    embeddings: str | None = None
    value: Any = None


def packed(rows: Embeddings) -> str:
    """As halves: a cosine changes in its fourth digit."""
    return base64.b64encode(rows.astype("<f2").tobytes()).decode("ascii")


def unpacked(embeddings: str, rows: int) -> Embeddings:
    return np.frombuffer(base64.b64decode(embeddings), "<f2").reshape(rows, -1).astype(np.float32)


MIRROR: Final = record_entity("mirror", Mirror, history=False)


@dataclass(frozen=True, slots=True)
class Followed:
    """Head and record alike; kept of sessions that ask for it alone. `since` is when the session began, in microseconds
    since 1970: an older event is of another one, which had the same id and is deleted."""

    indexes: bool
    gone: bool = False
    since: int = 0


FOLLOWED: Final = record_entity("followed", Followed, history=False)
