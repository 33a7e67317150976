"""What a batch of writes decides, worked out in memory on known heads. Pure: it may run again on newer ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Stamp
from hivemem_runtime.ledger.mongo.cache import HeadKey, KnownHead
from hivemem_runtime.ledger.mongo.documents import is_once, once_id, request_id
from hivemem_runtime.ledger.port import Append, Committed, Head, Outcome, Write
from hivemem_runtime.ledger.stored import StoredRecord, store

PLAN_BYTES: Final = 4 * 1024 * 1024
"""A batch ends before its records and heads pass this, which keeps its command well below what a server takes."""


class HeadMissing(BaseException):
    """A decision asked for a head that is not known yet. Not an `Exception`, so that no decision catches it."""

    def __init__(self, entity: AnyEntity, id: str) -> None:
        super().__init__(entity.name, id)
        self.entity = entity
        self.id = id


@dataclass(slots=True)
class NewRecord:
    stamp: Stamp
    stored: StoredRecord
    requests: list[str] = field(default_factory=list[str])
    """The identities that go when this record is erased."""


class Remembered(NamedTuple):
    """What answers a repeated write: a record, or version 0 where nothing was to be done. `held` is the version that
    has the identity among its `requests`."""

    entity: str
    tenant: str
    id: str
    version: int
    held: int
    at: int


Settled = Outcome | Exception


class Plan:
    """One run through a batch: later writes see what earlier ones decided."""

    def __init__(
        self,
        known: Mapping[HeadKey, KnownHead],
        marks: Mapping[HeadKey, int],
        answered: Mapping[str, Outcome],
        clock: Callable[[], int],
    ) -> None:
        self._known = known
        self._marks = marks
        self._answered = answered
        self._clock = clock
        self._named: dict[str, Outcome] = {}
        self.settled: list[Settled | None] = []
        self.heads: dict[HeadKey, KnownHead] = {}
        self.records: list[NewRecord] = []
        self.requests: dict[str, Remembered] = {}
        self.committed: list[Committed] = []
        self.missing: dict[HeadKey, AnyEntity] = {}
        self.only_read: set[HeadKey] = set()
        self.doubtful: set[HeadKey] = set()
        self.unasked: set[str] = set()
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= PLAN_BYTES

    def base(self, key: HeadKey) -> KnownHead:
        """The head that a staged one builds on, as the store is believed to have it."""
        return self._known[key]

    def guarded(self) -> list[KnownHead]:
        """Heads that decisions relied on without writing them: they must still be so when the batch is committed."""
        return [self._known[key] for key in self.only_read - self.heads.keys()]

    def add(self, write: Write) -> None:
        identities = [identity for identity in (request_id(write), once_id(write)) if identity is not None]
        repeated = self._repeated(identities)
        if repeated is not None:
            self.settled.append(repeated)
            return
        view = _View(self, write.tenant)
        try:
            self.settled.append(self._run(write, view, identities))
        except HeadMissing as miss:
            self.missing[miss.entity.name, write.tenant, miss.id] = miss.entity
            self.settled.append(None)
        except Exception as error:  # whatever a decision raises is its caller's to hear
            self._doubt(view, identities)
            self.settled.append(error)

    def current(self, entity: AnyEntity, tenant: str, id: str) -> KnownHead:
        key = (entity.name, tenant, id)
        head = self.heads.get(key) or self._known.get(key)
        if head is None:
            raise HeadMissing(entity, id)
        return head

    def _run(self, write: Write, view: "_View", identities: list[str]) -> Outcome:
        now = self._clock()
        decision = write.decide(view, now)
        if not decision:
            return self._nothing(write, view, identities, now)
        _check_distinct(decision)
        # One time for all that is committed together, above that of each of the keys.
        at = max([now, *[self.current(append.entity, write.tenant, append.id).at + 1 for append in decision]])
        steps = [self._step(write, append, at) for append in decision]
        for head, record, committed in steps:
            self._stage(head, record, committed)
        self.only_read |= view.seen
        _, first, appended = steps[0]
        outcome = Outcome(first.stamp, appended.record, appended.head)
        if identities:
            self._remember(write, identities, [record for _, record, _ in steps], outcome)
        return outcome

    def _nothing(self, write: Write, view: "_View", identities: list[str], now: int) -> Outcome:
        outcome = Outcome(None, None, None)
        if not identities:
            self._doubt(view, identities)
        else:
            self.only_read |= view.seen
            done = Remembered(write.entity.name, write.tenant, write.id, 0, 0, now)
            for identity in identities:
                self.requests[identity] = done
                self._named[identity] = outcome
        return outcome

    def _remember(
        self, write: Write, identities: Iterable[str], records: Sequence[NewRecord], outcome: Outcome
    ) -> None:
        first = records[0]
        for identity in identities:
            holder = first
            if is_once(identity) and len(records) > 1:
                own = (record for record in records if record.stamp.entity == write.entity.name)
                holder = next((record for record in own if record.stamp.id == write.id), first)
            holder.requests.append(identity)
            stamp = first.stamp
            self.requests[identity] = Remembered(
                stamp.entity, stamp.tenant, stamp.id, stamp.version, holder.stamp.version, stamp.at
            )
            self._named[identity] = outcome

    def _step(self, write: Write, append: Append[Any, Any], at: int) -> tuple[KnownHead, NewRecord, Committed]:
        entity = append.entity
        before = self.current(entity, write.tenant, append.id)
        stamp = Stamp(
            write.tenant,
            entity.name,
            append.id,
            before.version + 1,
            at,
            write.actor,
            write.cause,
            write.traceparent,
        )
        announced = max(before.announced, self._marks.get(before.key, 0))
        if before.erased and announced < before.version:
            raise Unavailable(
                f"the erasure of this {entity.name} is not announced yet", retry_after_ms=50, announced=announced
            )
        value = entity.evolve(before.value, append.record, stamp)
        stored = store(entity, stamp, append.record, value)
        size = before.size + len(stored.body)
        head = KnownHead(entity, write.tenant, append.id, stamp.version, stamp.at, announced, value, size=size)
        return head, NewRecord(stamp, stored), Committed(entity, stamp, append.record, value, announced)

    def _stage(self, head: KnownHead, record: NewRecord, committed: Committed) -> None:
        if head.key not in self.heads:
            self._bytes += self._known[head.key].size
        self._bytes += len(record.stored.body) + len(record.stored.snapshot or "")
        self.heads[head.key] = head
        self.records.append(record)
        self.committed.append(committed)

    def _doubt(self, view: "_View", identities: Iterable[str]) -> None:
        """A refusal commits nothing, so no filter would find out that it saw an old head or was a repetition."""
        self.doubtful |= view.seen
        self.unasked.update(identities)

    def _repeated(self, identities: Sequence[str]) -> Outcome | None:
        for identity in identities:
            first = self._named.get(identity) or self._answered.get(identity)
            if first is not None:
                return Outcome(first.stamp, first.record, None, duplicate=True)
        return None


class _View:
    """The heads as one decision sees them, and which it asked for."""

    __slots__ = ("_plan", "_tenant", "seen")

    def __init__(self, plan: Plan, tenant: str) -> None:
        self._plan = plan
        self._tenant = tenant
        self.seen: set[HeadKey] = set()

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        head = self._plan.current(entity, self._tenant, id)
        self.seen.add(head.key)
        return None if head.version == 0 else Head(id, head.version, head.at, cast("HeadT | None", head.value))


def _check_distinct(decision: Sequence[Append[Any, Any]]) -> None:
    if len(decision) > 1 and len({(append.entity.name, append.id) for append in decision}) != len(decision):
        raise AssertionError("a decision appends at most one record a key")
