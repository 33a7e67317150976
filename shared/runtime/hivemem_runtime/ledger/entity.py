"""What a worker declares of a thing that it keeps: head, record, how one follows from the other, indexes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from hivemem_contracts.subjects import Address

HeadT = TypeVar("HeadT")
RecordT = TypeVar("RecordT")
Scalar = str | int | bool | None
"""What an index holds. A time is microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Index:
    """One way to find heads: by equality on all of `equals`, in the order of `order`, then of the id; without an
    `order` in that of the id alone, which compares by its UTF-8 bytes.

    An index holds only the heads whose every field in `equals`, and in `order`, has a value, and with `only` only those
    whose field of that name is true. Fields of `covering` stand in the index itself, for `covered`.
    """

    name: str
    equals: tuple[str, ...]
    order: str | None
    only: str | None = None
    covering: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        order = () if self.order is None else (self.order,)
        return (*self.equals, *order, *((self.only,) if self.only else ()), *self.covering)


class Stamp(NamedTuple):
    """What the ledger itself knows of a record: where it stands, when it was committed, who caused it.

    A tuple, like all that is made once for every write: a frozen dataclass takes seven times as long to make."""

    tenant: str
    entity: str
    id: str
    version: int
    at: int
    actor: str
    cause: str | None = None
    traceparent: str | None = None


class Announcement(NamedTuple):
    """One change that a record means. Its own version, not the record's, numbers it at its address.

    Who, when and why come from the record's stamp. `hivemem_contracts.changes.Change` is what it becomes.
    """

    entity: str
    operation: str
    address: Address
    namespace: str
    version: int
    previous_version: int | None
    value: Any
    key: str | None = None


def announces_nothing(record: object, stamp: Stamp) -> tuple[Announcement, ...]:
    """The `announce` of what nobody outside hears of."""
    return ()


@dataclass(frozen=True, slots=True)
class Entity(Generic[HeadT, RecordT]):
    """A kind of thing. `HeadT` and `RecordT` are flat frozen dataclasses of plain JSON values.

    `evolve(head | None, record, stamp)` is the head after the record: pure, so that any past head can be rebuilt.
    `announce(record, stamp)` are the changes that the record means: pure, so that any worker can finish another's.
    `indexed(head)` are the values for the fields of the indexes.
    `position(record)` is a second numbering, of those records that have one (the events among a session's revisions);
    it grows along a key. `tags(record)` name the values of `tag_fields` that records with a position are found by.
    Every `snapshot_every` records the ledger keeps the whole head beside the record; 1 means that each record holds
    all that its head needs.
    `schema` numbers the shape of both dataclasses; `upcast(kind, schema, body)` brings an older body up to it, where
    `kind` is "head" or "record".
    Without `history` the head alone is kept, and its records leave no trace: for what is replaced often, and whose past
    is of no use or must not stay. Nothing is announced of such a thing. An entity may give up its history in a later
    release, but never take it up: what records there are by then is not read any more, and goes when its key is erased.
    """

    name: str
    head: type[HeadT]
    record: type[RecordT]
    evolve: Callable[[HeadT | None, RecordT, Stamp], HeadT]
    announce: Callable[[RecordT, Stamp], tuple[Announcement, ...]]
    indexed: Callable[[HeadT], Mapping[str, Scalar]]
    indexes: tuple[Index, ...] = ()
    position: Callable[[RecordT], int | None] | None = None
    tag_fields: tuple[str, ...] = ()
    tags: Callable[[RecordT], Mapping[str, str | None]] | None = None
    snapshot_every: int = 100
    schema: int = 1
    upcast: Callable[[str, int, dict[str, Any]], dict[str, Any]] | None = None
    announce_erased: Callable[[Stamp], tuple[Announcement, ...]] | None = None
    history: bool = True
    told_as: Mapping[str, Callable[[str, str | None], str]] = field(default_factory=dict[str, Any], compare=False)
    """Under which names its changes stand on the feed, and the id that a change's namespace and key lead back to."""
    index_by_name: Mapping[str, Index] = field(init=False, repr=False, compare=False)
    index_fields: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The fields of all indexes, each once, in a stable order."""

    def __post_init__(self) -> None:
        fields = dict.fromkeys(name for index in self.indexes for name in index.fields)
        object.__setattr__(self, "index_by_name", {index.name: index for index in self.indexes})
        object.__setattr__(self, "index_fields", tuple(fields))
        if not self.history:
            self._check_that_it_needs_no_records()

    def _check_that_it_needs_no_records(self) -> None:
        lacking = f"{self.name} keeps no history"
        assert self.announce is announces_nothing, f"{lacking}: announcements are made from records"
        assert self.announce_erased is None, f"{lacking}: an erasure is announced after the records before it"
        assert self.position is None, f"{lacking}: positions number records"
        assert self.tags is None, f"{lacking}: tags are those of records"
        assert not self.tag_fields, f"{lacking}: tags are those of records"
        assert self.snapshot_every == 1, f"{lacking}: snapshots are kept among records"


AnyEntity = Entity[Any, Any]


def _newest(head: RecordT | None, record: RecordT, stamp: Stamp) -> RecordT:
    return record


def _indexes_nothing(head: object) -> Mapping[str, Scalar]:
    return {}


def record_entity(
    name: str,
    record: type[RecordT],
    *,
    indexed: Callable[[RecordT], Mapping[str, Scalar]] = _indexes_nothing,
    indexes: tuple[Index, ...] = (),
    announce: Callable[[RecordT, Stamp], tuple[Announcement, ...]] = announces_nothing,
    history: bool = True,
    schema: int = 1,
    upcast: Callable[[str, int, dict[str, Any]], dict[str, Any]] | None = None,
) -> Entity[RecordT, RecordT]:
    """Return an entity whose head is its newest record."""
    return Entity(
        name=name,
        head=record,
        record=record,
        evolve=_newest,
        announce=announce,
        indexed=indexed,
        indexes=indexes,
        snapshot_every=1,
        schema=schema,
        upcast=upcast,
        history=history,
    )
