"""What a batch of writes decides, worked out in memory on known heads. Pure: it may run again on newer ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.errors import HiveError, NotFound, Unavailable
from hivemem_runtime.ledger.codec import dump
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Stamp
from hivemem_runtime.ledger.identities import require_same_command
from hivemem_runtime.ledger.mongo.cache import HeadKey, KnownHead
from hivemem_runtime.ledger.mongo.documents import MongoIdentities, MongoIdentity, is_once
from hivemem_runtime.ledger.port import Append, Committed, Decision, Head, Outcome, Write, appends_and_answer
from hivemem_runtime.ledger.stored import StoredRecord, store
from hivemem_runtime.ledger.turns import DecisionTimes

PLAN_BYTES: Final = 4 * 1024 * 1024
"""A batch ends before its records and heads pass this, which keeps its command well below what a server takes."""


class HeadsMissing(BaseException):
    """A decision needs heads that are not known yet. Not an `Exception`, so that no decision catches it."""

    def __init__(self, wanted: Mapping[HeadKey, AnyEntity]) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class Remembered(NamedTuple):
    """What answers a repeated write: a record, or version 0 where nothing was to be done. `held` is the version of
    the record that has the identity among its own. `stamp` is that of the record, where the record is not kept."""

    entity: str
    tenant: str
    id: str
    version: int
    held: int
    at: int
    as_long_as_key: bool
    digest: bytes | None
    stamp: Stamp | None = None


class Spent(NamedTuple):
    """What answers a repeated write whose record was erased since."""

    entity: str

    def refusal(self) -> NotFound:
        return NotFound(f"the {self.entity} that this request wrote was erased", entity=self.entity, erased=True)


class Answered(NamedTuple):
    """What answers a repeated write, and the digest of the command that was the first."""

    first: Outcome | Spent
    digest: bytes | None


Settled = Outcome | Exception
_Step = tuple[Committed, StoredRecord | None]


class Plan:
    """One run through a batch: later writes see what earlier ones decided."""

    def __init__(
        self,
        known: Mapping[HeadKey, KnownHead],
        marks: Mapping[HeadKey, int],
        answered: Mapping[str, Answered],
        clock: Callable[[], int],
    ) -> None:
        self._known = known
        self._marks = marks
        self._answered = answered
        self._clock = clock
        self._named: dict[str, Answered] = {}
        self.settled: list[Settled | None] = []
        self.heads: dict[HeadKey, KnownHead] = {}
        self.committed: list[Committed] = []
        self.records: list[StoredRecord | None] = []
        """How each of `committed` is stored; None where records are not kept."""
        self.holds: dict[int, list[str]] = {}
        """The identities that go when a record is erased, by its place among them."""
        self.requests: dict[str, Remembered] = {}
        self.missing: dict[HeadKey, AnyEntity] = {}
        self.only_read: set[HeadKey] = set()
        self.doubtful: set[HeadKey] = set()
        self.unasked: set[str] = set()
        self._bytes = 0
        self.times = DecisionTimes()

    @property
    def full(self) -> bool:
        return self._bytes >= PLAN_BYTES or self.times.enough

    @property
    def first_kept(self) -> int | None:
        """The place of the first record that is kept, if any of them is."""
        return next((place for place, record in enumerate(self.records) if record is not None), None)

    def base(self, key: HeadKey) -> KnownHead:
        """The head that a staged one builds on, as the store is believed to have it."""
        return self._known[key]

    def guarded(self) -> list[KnownHead]:
        """Heads that decisions relied on without writing them: they must still be so when the batch is committed."""
        return [self._known[key] for key in self.only_read - self.heads.keys()]

    def add(self, write: Write, identities: MongoIdentities) -> None:
        repeated = self._repeated(write, identities)
        if repeated is not None:
            self.settled.append(repeated)
            return
        view = _View(self, write.tenant)
        self.times.begin()
        try:
            self.settled.append(self._run(write, view, identities))
        except HeadsMissing as missing:
            self.missing.update(missing.wanted)
            self.settled.append(None)
        except Exception as error:  # whatever a decision raises is its caller's to hear
            self._doubt(view, identities)
            self.settled.append(error)
        self.times.end(write.tenant)

    def find(self, key: HeadKey) -> KnownHead | None:
        """A head as this batch leaves it so far."""
        return self.heads.get(key) or self._known.get(key)

    def _run(self, write: Write, view: "_View", identities: MongoIdentities) -> Outcome:
        now = self._clock()
        decision, answer = appends_and_answer(write.decide(view, now))
        if not decision:
            return self._nothing(write, view, identities, now)._replace(answer=answer)
        heads = self._built_upon(write.tenant, decision)
        # Records of a commit share one time, later than each key's last one; a second record of a key is later still.
        at = now
        for head in heads.values():
            if head.at >= at:
                at = head.at + 1
        # Evolving and encoding may raise, so all of it is done before anything is staged.
        steps = [self._step(write, append, heads, at) for append in decision]
        self._stage(heads, steps)
        self.only_read |= view.seen
        first, _ = steps[0]
        outcome = Outcome(first.stamp, first.record, first.head)
        remembered = self._to_remember(identities)
        if remembered:
            self._remember(write, remembered, len(steps), outcome)
        return outcome if answer is None else outcome._replace(answer=answer)

    def _to_remember(self, identities: MongoIdentities) -> list[MongoIdentity]:
        part_of = identities.part_of
        if part_of is None or self._known_as(part_of) is not None:
            return identities.own
        return [*identities.own, part_of]

    def _built_upon(self, tenant: str, decision: Decision) -> dict[HeadKey, KnownHead]:
        found: dict[HeadKey, KnownHead] = {}
        missing: dict[HeadKey, AnyEntity] = {}
        for append in decision:
            key = (append.entity.name, tenant, append.id)
            head = self.find(key)
            if head is None:
                missing[key] = append.entity
            else:
                found[key] = head
        if missing:
            raise HeadsMissing(missing)
        return found

    def _step(self, write: Write, append: Append[Any, Any], heads: dict[HeadKey, KnownHead], at: int) -> _Step:
        """Append to a key; `heads` is what the decision leaves of its keys so far."""
        entity, id, record = append
        key = (entity.name, write.tenant, id)
        before = heads[key]
        durable = before.announced
        announced = self._marks.get(key, 0)
        if announced < durable:
            announced = durable
        if before.erased and announced < before.version and entity.history:
            raise Unavailable(
                f"the erasure of this {entity.name} is not announced yet", retry_after_ms=50, announced=announced
            )
        stamp = Stamp(
            write.tenant,
            entity.name,
            id,
            before.version + 1,
            at if before.at < at else before.at + 1,
            write.actor,
            write.cause,
            write.traceparent,
        )
        value = entity.evolve(before.value, record, stamp)
        stored = store(entity, stamp, record, value)
        if not entity.history:
            announced = durable = stamp.version
        heads[key] = KnownHead(
            entity,
            write.tenant,
            id,
            stamp.version,
            stamp.at,
            durable,
            value,
            False,
            before.size or len(dump(value) if stored is None else stored.body),
        )
        return Committed(entity, stamp, record, value, announced), stored

    def _stage(self, heads: Mapping[HeadKey, KnownHead], steps: Sequence[_Step]) -> None:
        for key, head in heads.items():
            if key not in self.heads:
                self._bytes += head.size
            self.heads[key] = head
        for committed, record in steps:
            if record is not None:
                self._bytes += len(record.body) if record.snapshot is None else len(record.body) + len(record.snapshot)
            self.committed.append(committed)
            self.records.append(record)

    def _nothing(self, write: Write, view: "_View", identities: MongoIdentities, now: int) -> Outcome:
        outcome = Outcome(None, None, None)
        if not identities.own:
            self._doubt(view, identities)
        else:
            self.only_read |= view.seen
            for name, lasts, digest in identities.own:
                self.requests[name] = Remembered(write.entity.name, write.tenant, write.id, 0, 0, now, lasts, digest)
                self._named[name] = Answered(outcome, digest)
        return outcome

    def _remember(self, write: Write, identities: Iterable[MongoIdentity], appended: int, outcome: Outcome) -> None:
        first = len(self.committed) - appended
        entity, stamp = self.committed[first].entity, self.committed[first].stamp
        kept = None if entity.history else stamp
        for name, lasts, digest in identities:
            holder = self._own(write, first) if is_once(name) else first
            self.holds.setdefault(holder, []).append(name)
            held = self.committed[holder].stamp.version
            self.requests[name] = Remembered(
                stamp.entity, stamp.tenant, stamp.id, stamp.version, held, stamp.at, lasts, digest, kept
            )
            self._named[name] = Answered(outcome if entity.history else outcome._replace(record=None), digest)

    def _own(self, write: Write, first: int) -> int:
        """The place of a write's first record of its own key; of its very first, if none is."""
        for place in range(first, len(self.committed)):
            stamp = self.committed[place].stamp
            if (stamp.entity, stamp.id) == (write.entity.name, write.id):
                return place
        return first

    def _doubt(self, view: "_View", identities: MongoIdentities) -> None:
        """A refusal commits nothing, so no filter would find out that it saw an old head or was a repetition."""
        self.doubtful |= view.seen
        self.unasked.update(identities.names)

    def _repeated(self, write: Write, identities: MongoIdentities) -> Settled | None:
        try:
            first = self._first_outcome(write, identities)
        except HiveError as refusal:
            return refusal
        return None if first is None else Outcome(first.stamp, first.record, None, duplicate=True)

    def _first_outcome(self, write: Write, identities: MongoIdentities) -> Outcome | None:
        if identities.part_of is not None:
            self._known_as(identities.part_of)
        for identity in identities.own:
            answered = self._known_as(identity)
            if answered is not None:
                if isinstance(answered.first, Spent):
                    raise answered.first.refusal()
                return answered.first
        return None if identities.elsewhere is None else self._answered_elsewhere(write, identities.elsewhere)

    def _known_as(self, identity: MongoIdentity) -> Answered | None:
        """What answers this identity. Raises `IdempotencyConflict` where that was another command."""
        answered = self._named.get(identity.name) or self._answered.get(identity.name)
        if answered is not None:
            require_same_command(answered.digest, identity.digest)
        return answered

    def _answered_elsewhere(self, write: Write, name: str) -> Outcome | None:
        """What another write answers, if that was to the same key."""
        answered = self._named.get(name) or self._answered.get(name)
        if answered is None or isinstance(answered.first, Spent):
            return None
        stamp = answered.first.stamp
        same = stamp is not None and (stamp.entity, stamp.id) == (write.entity.name, write.id)
        return answered.first if same else None


class _View:
    """The heads as one decision sees them, and which it asked for."""

    __slots__ = ("_plan", "_tenant", "seen")

    def __init__(self, plan: Plan, tenant: str) -> None:
        self._plan = plan
        self._tenant = tenant
        self.seen: set[HeadKey] = set()

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        key = (entity.name, self._tenant, id)
        head = self._plan.find(key)
        if head is None:
            raise HeadsMissing({key: entity})
        self.seen.add(key)
        return None if head.version == 0 else Head(id, head.version, head.at, cast("HeadT | None", head.value))
