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
    """One way to find heads: by equality on every field of `equals`, ordered by `order` and then by id. Ids compare by
    their UTF-8 bytes.

    An index holds a head only if each of these fields has a value and the field named by `only`, if any, is true. The
    index also contains the fields of `covering`, for `Ledger.covered`.
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
    """The ledger's own facts about a record: its key and version, when it was committed, and who caused it.

    Each write makes one, so it is a tuple: a frozen dataclass takes seven times as long to make."""

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
    """Announce nothing: the `announce` of entities that are internal to a worker."""
    return ()


@dataclass(frozen=True, slots=True)
class Entity(Generic[HeadT, RecordT]):
    """A kind of thing that a worker keeps. `HeadT` and `RecordT` are flat frozen dataclasses of plain JSON values.

    - `evolve(head | None, record, stamp)` returns the head after a record. It is pure, so any past head can be rebuilt.
    - `announce(record, stamp)` returns the changes for the feed. It is pure, so any worker can finish another's.
    - `indexed(head)` returns the values of the index fields.
    - `position(record)` numbers some of the records a second time, such as the events among a session's revisions.
      Positions grow along a key. `tags(record)` returns the values of `tag_fields`, which find records by position.
    - `snapshot_every` says how often the ledger stores the whole head beside a record. 1 means that a record alone
      determines its head.
    - `schema` numbers the shape of both dataclasses. `upcast(kind, schema, body)` converts an older body; `kind` is
      "head" or "record".
    - `history=False` stores the head alone and announces nothing, for values that are replaced often and whose past is
      useless or must not stay. A later release may drop the history of an entity, but never introduce one: old records
      are no longer read, and are deleted when their key is erased.
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
    told_as: Mapping[str, Callable[[str, str | None], str]] | None = None,
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
        told_as=told_as or {},
    )
