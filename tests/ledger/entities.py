"""The entities of the suite: small, but with every feature that an entity can declare."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import (
    Announcement,
    AnyEntity,
    Entity,
    Index,
    Scalar,
    Stamp,
    announces_nothing,
)


def _announced(stamp: Stamp, operation: str) -> tuple[Announcement, ...]:
    previous = stamp.version - 1 or None
    return (Announcement(stamp.entity, operation, Address((stamp.id,)), stamp.id, stamp.version, previous, None),)


def _written(record: object, stamp: Stamp) -> tuple[Announcement, ...]:
    return _announced(stamp, "written")


def _erased(stamp: Stamp) -> tuple[Announcement, ...]:
    return _announced(stamp, "erased")


@dataclass(frozen=True, slots=True)
class NoteHead:
    """A sum over the note's records: `total` and `trail` are wrong if one is lost, repeated or out of order."""

    text: str
    board: str | None
    shade: str
    rank: int
    pinned: bool
    total: int
    trail: str
    position: int
    body: Any
    created_at: int
    changed_at: int


@dataclass(frozen=True, slots=True)
class NoteEdited:
    """A change of a note; None leaves a field as it was. A line of the note has a position, other changes have none."""

    text: str | None = None
    board: str | None = None
    shade: str | None = None
    rank: int | None = None
    pinned: bool | None = None
    add: int = 0
    position: int | None = None
    author: str | None = None
    topic: str | None = None
    body: Any = None


_EMPTY = NoteHead("", None, "plain", 0, False, 0, "", 0, None, 0, 0)
TRAIL_CHARACTERS = 60


def _evolve_note(head: NoteHead | None, record: NoteEdited, stamp: Stamp) -> NoteHead:
    before = head or replace(_EMPTY, created_at=stamp.at)
    given = {
        name: value
        for name in ("text", "board", "shade", "rank", "pinned", "position", "body")
        if (value := getattr(record, name)) is not None
    }
    trail = f"{before.trail}{stamp.version}+{record.add};"[-TRAIL_CHARACTERS:]
    return replace(before, **given, total=before.total + record.add, trail=trail, changed_at=stamp.at)


def _note_fields(head: NoteHead) -> Mapping[str, Scalar]:
    return {
        "board": head.board,
        "shade": head.shade,
        "rank": head.rank,
        "text": head.text,
        "pinned": head.pinned,
        "total": head.total,
        "changed_at": head.changed_at,
    }


NOTE: Entity[NoteHead, NoteEdited] = Entity(
    name="note",
    head=NoteHead,
    record=NoteEdited,
    evolve=_evolve_note,
    announce=_written,
    announce_erased=_erased,
    indexed=_note_fields,
    indexes=(
        Index("by_board", ("board",), "rank"),
        Index("pinned", ("board",), "changed_at", only="pinned"),
        Index("by_text", ("board", "shade"), "text", covering=("total",)),
        Index("recent", (), "changed_at"),
        Index("ids", (), None, covering=("total", "pinned", "text", "board")),
        Index("board_ids", ("board",), None, covering=("rank",)),
        Index("pinned_ids", (), None, only="pinned"),
        Index("boards", (), "board", covering=("pinned",)),
    ),
    position=lambda record: record.position,
    tag_fields=("author", "topic"),
    tags=lambda record: {"author": record.author, "topic": record.topic},
    snapshot_every=4,
)


@dataclass(frozen=True, slots=True)
class CounterHead:
    value: int
    name: str


@dataclass(frozen=True, slots=True)
class CounterSet:
    value: int
    name: str = ""


COUNTER: Entity[CounterHead, CounterSet] = Entity(
    name="counter",
    head=CounterHead,
    record=CounterSet,
    evolve=lambda _head, record, _stamp: CounterHead(record.value, record.name),
    announce=_written,
    announce_erased=_erased,
    indexed=lambda head: {"name": head.name, "value": head.value},
    indexes=(Index("by_name", ("name",), "value"),),
    snapshot_every=1,
)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value that is both head and record."""

    value: int
    board: str | None = None
    body: Any = None


GAUGE: Entity[Gauge, Gauge] = Entity(
    name="gauge",
    head=Gauge,
    record=Gauge,
    evolve=lambda _head, record, _stamp: record,
    announce=announces_nothing,
    indexed=lambda head: {"board": head.board, "value": head.value},
    indexes=(
        Index("by_board", ("board",), "value"),
        Index("ids", (), None, covering=("value", "board")),
    ),
    snapshot_every=1,
    history=False,
)

ENTITIES: tuple[AnyEntity, ...] = (NOTE, COUNTER, GAUGE)
