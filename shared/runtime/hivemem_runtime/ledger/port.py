"""The ledger's port: what a worker may ask of a store, and what every adapter promises.

Decisions are pure functions and run inside the ledger, so a decision always saw the newest heads. Everything that a
decision appends, its request ids and what has to be announced are durable together before the caller hears of it.
"""

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Scalar, Stamp
from hivemem_runtime.ledger.feed_mark import FeedMark

ValueT = TypeVar("ValueT")


class Head(NamedTuple, Generic[HeadT]):
    """The newest state of a key. After an erasure `value` is None and `version` is the fence."""

    id: str
    version: int
    at: int
    value: HeadT | None


def value_of(head: Head[HeadT] | None) -> HeadT | None:
    """Return what a key holds now; None for a key that was never written, or that was erased."""
    return None if head is None else head.value


class Record(NamedTuple, Generic[RecordT]):
    """One immutable version of a key. `snapshot` is the whole head at this version, where the ledger kept one."""

    stamp: Stamp
    value: RecordT
    snapshot: Any = None


class Append(NamedTuple, Generic[HeadT, RecordT]):
    """A record to append to a key of the write's tenant."""

    entity: Entity[HeadT, RecordT]
    id: str
    record: RecordT


class Heads(Protocol):
    """The newest heads, as a decision sees them. A key that was never written has none."""

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None: ...


Decision = Sequence[Append[Any, Any]]
"""What to append, several records of one key in their order; the first one is the outcome that the caller hears of.
Empty: nothing."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with an answer to whoever made the write: `Outcome.answer`."""

    appends: Decision
    answer: Any


def appends_and_answer(decided: Decision | Decided) -> tuple[Decision, Any]:
    """Return what to append and the answer, if there is one; for adapters."""
    return (decided.appends, decided.answer) if isinstance(decided, Decided) else (decided, None)


Decide = Callable[[Heads, int], Decision | Decided]
"""`decide(heads, now)`: reads only `heads`, awaits nothing, may run more than once; raises a `HiveError` to refuse."""


Reads = Sequence[tuple[AnyEntity, str]]
"""Keys that a decision will ask for."""


class RequestId(NamedTuple):
    """The idempotency key of a command, and a digest of the command itself.

    The same name with another digest is refused with `IdempotencyConflict`; without a digest, it matches any.
    """

    name: str
    """In the scope where it is unique, within a tenant."""
    digest: bytes | None = None
    as_long_as_key: bool = False
    """Remembered until the key is erased, and not for `request_memory_seconds` only."""


@dataclass(frozen=True, slots=True)
class Write:
    """One atomic step on one or more keys of a tenant.

    `request_id` is remembered for at least the ledger's `request_memory_seconds`; `once` (scoped to the key: an event
    id) as long as the key is not erased. The same one again, of either kind, adds nothing and answers the first
    outcome. Where another write to this very key had the request name `answered_by`, that answers as well.

    `part_of` is the id of a command of several writes. It answers none of them, but it is remembered with the first
    of them that appends, so that another command under the same id is refused.

    `reads` names other keys that the decision will ask for, so that they are read together. It may ask for more, each
    at the price of a read of its own.
    """

    tenant: str
    actor: str
    entity: AnyEntity
    id: str
    decide: Decide
    request_id: RequestId | None = None
    once: str | None = None
    cause: str | None = None
    traceparent: str | None = None
    reads: Reads = ()
    answered_by: str | None = None
    part_of: RequestId | None = None


SYSTEM: Final = "hivemem"
"""The actor of writes that no agent asked for."""


def system_write(
    tenant: str,
    entity: AnyEntity,
    id: str,
    decide: Decide,
    reads: Reads = (),
    *,
    actor: str = SYSTEM,
    once: str | None = None,
    cause: str | None = None,
) -> Write:
    """Return a write that no call asked for. `actor` and `cause` name who brought it about, where anybody did."""
    return Write(tenant, actor, entity, id, decide, once=once, cause=cause, reads=reads)


class Committed(NamedTuple):
    """One record that a commit appended, with the head after it and the key's announced mark before it; of an entity
    without history the mark is the version itself, for there is nothing to announce."""

    entity: AnyEntity
    stamp: Stamp
    record: Any
    head: Any
    announced: int
    erased: bool = False


class Outcome(NamedTuple):
    """What became of a write: its first record. `record` is None if the decision appended nothing.

    `head` is the head right after that record, or None for a duplicate, which answers the stamp and the record of the
    first time; where that record is of an entity without history, the stamp alone.

    `answer` is that of a `Decided`; None for a duplicate."""

    stamp: Stamp | None
    record: Any
    head: Any
    duplicate: bool = False
    answer: Any = None


class Covered(NamedTuple):
    """A head as an index alone knows it: its id and the index's `covering` fields."""

    id: str
    values: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Page(Generic[ValueT]):
    items: list[ValueT]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Due:
    """A key whose records above `announced` are not known to be on the bus; an erased key's last is its erasure."""

    tenant: str
    entity: str
    id: str
    announced: int
    version: int
    erased: bool
    at: int
    actor: str = ""
    cause: str | None = None
    """Who erased the key and why; empty for a key that is not erased."""


QueryKind = Literal["find", "covered", "count"]

Listener = Callable[[Sequence[Committed]], None]


class Ledger(Protocol):
    """Keys are `(tenant, entity, id)`. A store that cannot be reached raises `Unavailable`, a full queue `Overloaded`.

    Versions of a key grow by one from 1; commit times of a key strictly grow. Concurrent writers, in one process or
    many, never lose an update. When a batch fails, everything that was queued behind it fails with it, so a caller
    that submits in order never sees a later write of a key applied without an earlier one.

    Of an entity without history a key is its head and nothing else. All holds for it that is said here, but there is
    nothing to read of its past: `record`, `history`, `version_at`, `as_of` and `freeze` refuse it as an error of the
    program, no key of it is ever due, and a duplicate knows the first stamp, not the record.
    """

    def on_commit(self, listener: Listener) -> None:
        """Call `listener` with what each batch appended, in commit order, before the writers hear of it."""
        ...

    async def open(self) -> None:
        """Create or migrate what is kept. Refuses data of a newer release."""
        ...

    async def close(self) -> None:
        """Finish what was submitted and let go."""
        ...

    async def check(self) -> None:
        """Raise `Unavailable` if the store cannot be written now."""
        ...

    def commit(self, write: Write) -> Future[Outcome]:
        """Queue a write now, in the order of the calls; the future is its outcome, or raises what `decide` raised."""
        ...

    async def head(self, entity: Entity[HeadT, RecordT], tenant: str, id: str) -> Head[HeadT] | None: ...

    async def heads(self, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]) -> dict[str, Head[HeadT]]:
        """Those of the ids that were ever written, in one round trip."""
        ...

    async def record(
        self, entity: Entity[HeadT, RecordT], tenant: str, id: str, version: int
    ) -> Record[RecordT] | None: ...

    async def history(
        self,
        entity: Entity[HeadT, RecordT],
        tenant: str,
        id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int,
        reverse: bool = False,
        by_position: bool = False,
        tag: tuple[str, str] | None = None,
    ) -> list[Record[RecordT]]:
        """Records with a version strictly between `after` and `before`, hot or cold, in order.

        With `by_position` the bounds are positions and only records that have one are meant; `tag` (which needs
        `by_position`) keeps those with that value of a declared tag field.
        """
        ...

    async def version_at(self, entity: AnyEntity, tenant: str, id: str, at: int) -> int:
        """Return the last version committed at or before a moment, or 0."""
        ...

    async def find(
        self,
        entity: Entity[HeadT, RecordT],
        tenant: str,
        index: str,
        *,
        equals: Mapping[str, Scalar],
        low: Scalar = None,
        high: Scalar = None,
        reverse: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> Page[Head[HeadT]]:
        """Heads by a declared index: equality on all its `equals` fields, `low <= order < high` (without an order, the
        id's). This, `covered` and `count` are the only queries."""
        ...

    async def covered(
        self,
        entity: AnyEntity,
        tenant: str,
        index: str,
        *,
        equals: Mapping[str, Scalar],
        low: Scalar = None,
        high: Scalar = None,
        reverse: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> Page[Covered]:
        """Like `find`, from the index alone: no head is read."""
        ...

    async def count(
        self,
        entity: AnyEntity,
        tenant: str,
        index: str,
        *,
        equals: Mapping[str, Scalar],
        low: Scalar = None,
        high: Scalar = None,
    ) -> int:
        """How many heads `find` would come by, counted in the index, without holding up anything else for long."""
        ...

    async def as_of(
        self, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str], at: int
    ) -> dict[str, Record[RecordT]]:
        """The last record of each id that was committed at or before a moment, hot or cold, in one round trip."""
        ...

    async def tenants(self, entity: AnyEntity) -> list[str]:
        """Those that ever wrote such a thing, in order; what runs for all of them begins here."""
        ...

    async def freeze(self, entity: AnyEntity, tenant: str, id: str, through: int, *, limit: int) -> int:
        """Move up to `limit` of the oldest announced records, at most through a version, to cold storage.

        They stay readable, the head and its version stay as they are. Answers how many were moved.
        """
        ...

    async def erase(
        self,
        entity: AnyEntity,
        tenant: str,
        id: str,
        *,
        actor: str,
        cause: str | None,
        keep_through_position: int = 0,
        version: int | None = None,
    ) -> Stamp | None:
        """Remove a key's records, head, `once` and request ids, and leave a tombstone whose version is the next one.

        Everything announced so far must be known as announced before (else `Unavailable`, retryable: announce first).
        Records at or below `keep_through_position` stay readable (a fork shares them) until an erase without it.
        A key that lives at another `version` than the one given is left alone: `RevisionConflict`.
        Answers the tombstone's stamp, and the same one again to a repeated call of the same actor and cause; None if
        there is nothing to erase. A write that comes later starts above it, but the request ids are spent: a late copy
        of a request whose first record was of the key is refused with `NotFound` (the context names the `entity`, and
        that it was `erased`) for as long as it would have been remembered.
        """
        ...

    async def due(self, *, older_than: int, limit: int) -> list[Due]:
        """Keys with something to announce whose last commit was before a moment, oldest first."""
        ...

    def announced(self, entity: str, tenant: str, id: str, version: int) -> None:
        """Note that all through `version` is on the feed. It is durable within a second, together with the newest
        feed mark or after it: no durable mark of a key ever relies on a place of the feed that is not recorded."""
        ...

    def note_feed(self, mark: FeedMark) -> None:
        """Note the newest feed mark. Call it before `announced` for the changes that it covers. Once another writer has
        made the keys due again for a later feed, what was announced on this one no longer counts."""
        ...

    async def feed_mark(self) -> FeedMark | None:
        """Return the newest feed mark that is durable; None before anything was told."""
        ...

    async def announce_again(self, mark: FeedMark) -> None:
        """Make every key due from its first version that was committed since `mark.begins`, forget all other marks that
        are noted, and then make this one durable. For a feed that lost messages: whoever announces then leaves out what
        it still holds."""
        ...

    async def explain(self, entity: AnyEntity, index: str, query: QueryKind = "find") -> list[str]:
        """How the store would run a query on this index: the plan's steps, for the test that none scans."""
        ...
