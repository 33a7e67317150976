"""One batch of writes: decisions against the newest heads, staged in memory, applied by a few statements."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.errors import Internal, NotFound, Unavailable
from hivemem_runtime.ledger.codec import decode_head, plain
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Stamp
from hivemem_runtime.ledger.identities import require_same_command
from hivemem_runtime.ledger.port import Committed, Decision, Head, Outcome, Write, appends_and_answer
from hivemem_runtime.ledger.sqlite.applying import NewRecord, NewRequest, write_heads, write_records, write_requests
from hivemem_runtime.ledger.sqlite.cache import CachedHead, HeadKey, SqliteHeadCache
from hivemem_runtime.ledger.sqlite.history import read_record
from hivemem_runtime.ledger.sqlite.requests import (
    NOTHING,
    SPENT,
    Known,
    SqliteIdentities,
    SqliteIdentity,
    identities_of,
    kept_stamp,
    read_known,
)
from hivemem_runtime.ledger.sqlite.rows import marks
from hivemem_runtime.ledger.sqlite.tables import Table
from hivemem_runtime.ledger.stored import StoredRecord, store

_HEADS_AT_ONCE: Final = 500


class Step(NamedTuple):
    """One record of a decision, before anything of it is staged. `stored` is None where records are not kept."""

    committed: Committed
    head: CachedHead
    stored: StoredRecord | None


class SqliteBatch:
    """Runs writes one after the other against staged heads; `apply` writes what they staged."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        tables: Mapping[str, Table],
        cache: SqliteHeadCache,
        clock: Callable[[], int],
        announced: Mapping[HeadKey, int],
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._cache = cache
        self._clock = clock
        self._marks = announced
        self._heads: dict[HeadKey, CachedHead] = {}
        self._written: dict[HeadKey, CachedHead] = {}
        self._records: dict[str, list[NewRecord]] = defaultdict(list)
        self._requests: dict[bytes, NewRequest] = {}
        self._identities: list[SqliteIdentities] = []
        self._outcomes: dict[bytes, Outcome] = {}
        self._known: dict[bytes, Known] = {}
        self.committed: list[Committed] = []

    def load(self, writes: Sequence[Write]) -> None:
        """Everything that the batch is likely to need, in few statements: request ids and missing heads."""
        self._identities = [identities_of(write) for write in writes]
        scopes = dict.fromkeys(scope for found in self._identities for scope in found.scopes)
        self._known = read_known(self._connection, list(scopes))
        missing: dict[tuple[str, str], dict[str, AnyEntity]] = defaultdict(dict)
        for write in writes:
            for entity, id in ((write.entity, write.id), *write.reads):
                if self._cache.get((entity.name, write.tenant, id)) is None:
                    missing[entity.name, write.tenant][id] = entity
        for (_, tenant), wanted in missing.items():
            self._read_heads(next(iter(wanted.values())), tenant, list(wanted))

    def run(self, place: int, write: Write) -> Outcome:
        """Stage the loaded write with this index and return its outcome. If its decision raises, nothing is staged."""
        identities = self._identities[place]
        known = self._repeated(write, identities)
        if known is not None:
            return known
        now = self._clock()
        decision, answer = appends_and_answer(write.decide(_View(self, write.tenant), now))
        if not decision:
            return self._nothing(write, identities.own, now, answer)
        # Evolving and encoding may raise, so all of it is done before anything is staged.
        steps = self._steps(write, decision, now)
        remembered = self._to_remember(identities)
        requests = b"".join([identity.scope for identity in remembered]) or None
        head = self._stage(steps[0], requests)
        for step in steps[1:]:
            self._stage(step, None)
        first = steps[0].committed
        if remembered:
            self._remember(remembered, first, head)
        return Outcome(first.stamp, first.record, first.head, answer=answer)

    def _to_remember(self, identities: SqliteIdentities) -> list[SqliteIdentity]:
        part_of = identities.part_of
        if part_of is None or part_of.scope in self._requests or part_of.scope in self._known:
            return identities.own
        return [*identities.own, part_of]

    def _remember(self, identities: Sequence[SqliteIdentity], first: Committed, head: CachedHead) -> None:
        stamp = first.stamp
        kept_record, kept = (first.record, None) if first.entity.history else (None, kept_stamp(stamp))
        again = Outcome(stamp, kept_record, None, duplicate=True)
        for scope, as_long_as_key, digest in identities:
            purge_from = None if as_long_as_key else stamp.at
            self._requests[scope] = NewRequest(stamp.entity, head, stamp.version, purge_from, digest, kept)
            self._outcomes[scope] = again

    def _nothing(self, write: Write, identities: Sequence[SqliteIdentity], now: int, answer: Any) -> Outcome:
        """A request that found nothing to do stays done: delivered again, it must not hit what came meanwhile."""
        for scope, as_long_as_key, digest in identities:
            if not as_long_as_key:
                self._requests[scope] = NewRequest(write.entity.name, None, NOTHING, now, digest)
                self._outcomes[scope] = Outcome(None, None, None, duplicate=True)
        return Outcome(None, None, None, answer=answer)

    def _steps(self, write: Write, decision: Decision, now: int) -> list[Step]:
        """Return the records of a decision. They share one commit time, later than the last one of each key; a second
        record of a key is one microsecond later."""
        heads = [self.head(append.entity, write.tenant, append.id) for append in decision]
        at = max([now, *[head.at + 1 for head in heads]])
        last: dict[tuple[str, str], Committed] = {}
        steps: list[Step] = []
        for append, head in zip(decision, heads, strict=True):
            entity = append.entity
            before = last.get((entity.name, append.id))
            if before is None:
                version, when, value, announced = head.version + 1, at, head.value, self._announced(head)
            else:
                version, when, value = before.stamp.version + 1, before.stamp.at + 1, before.head
                announced = before.announced
            stamp = Stamp(
                write.tenant, entity.name, append.id, version, when, write.actor, write.cause, write.traceparent
            )
            value = entity.evolve(value, append.record, stamp)
            committed = Committed(entity, stamp, append.record, value, announced if entity.history else version)
            last[entity.name, append.id] = committed
            steps.append(Step(committed, head, store(entity, stamp, append.record, value)))
        return steps

    def _announced(self, head: CachedHead) -> int:
        """Up to where the key is known as announced; an erased one takes nothing new before its erasure is."""
        name = head.entity.name
        announced = max(head.announced, self._marks.get((name, head.tenant, head.id), 0))
        if head.value is None and announced < head.version and head.entity.history:
            raise Unavailable(
                f"the erasure of this {name} is not announced yet", retry_after_ms=50, announced=announced
            )
        return announced

    def _stage(self, step: Step, requests: bytes | None) -> CachedHead:
        committed, head, stored = step
        stamp = committed.stamp
        key = (stamp.entity, stamp.tenant, stamp.id)
        staged = self._written.get(key)
        if staged is None:
            staged = self._written[key] = self._heads[key] = head if self._heads.get(key) is head else head.copy()
        staged.version = stamp.version
        staged.at = stamp.at
        if not committed.entity.history:
            staged.announced = stamp.version
        staged.value = committed.head
        if stored is not None:
            self._records[stamp.entity].append(NewRecord(staged, stored, requests))
        self.committed.append(committed)
        return staged

    def head(self, entity: AnyEntity, tenant: str, id: str) -> CachedHead:
        """Staged, cached or read; to be changed by `_stage` alone."""
        key = (entity.name, tenant, id)
        head = self._heads.get(key) or self._cache.get(key)
        if head is None:
            self._read_heads(entity, tenant, [id])
            head = self._heads[key]
        return head

    def _read_heads(self, entity: AnyEntity, tenant: str, ids: list[str]) -> None:
        table = self._tables[entity.name]
        for id in ids:
            self._heads[entity.name, tenant, id] = CachedHead(entity, tenant, id)
        for start in range(0, len(ids), _HEADS_AT_ONCE):
            part = ids[start : start + _HEADS_AT_ONCE]
            rows = self._connection.execute(
                "SELECT key, id, version, at, announced, schema, body "
                f"FROM {entity.name}_heads WHERE tenant = ? AND id IN ({marks(len(part))})",
                (tenant, *part),
            )
            for key, id, version, at, announced, schema, body in rows.fetchall():
                head = CachedHead(entity, tenant, id, key, version, at, announced)
                if body is not None:
                    text = plain(body)
                    head.value, head.size = decode_head(entity, schema, text), len(text)
                    head.indexed = table.indexed(head.value)
                self._heads[entity.name, tenant, id] = head

    def _repeated(self, write: Write, identities: SqliteIdentities) -> Outcome | None:
        part_of = identities.part_of
        if part_of is not None:
            staged = self._requests.get(part_of.scope) or self._known.get(part_of.scope)
            require_same_command(None if staged is None else staged.digest, part_of.digest)
        for identity in identities.own:
            outcome = self._first_outcome(identity, write.tenant)
            if outcome is not None:
                return outcome
        return None if identities.elsewhere is None else self._answered_elsewhere(write, identities.elsewhere)

    def _answered_elsewhere(self, write: Write, scope: bytes) -> Outcome | None:
        """What another write answers, if that was to the same key."""
        name = write.entity.name
        outcome, known = self._outcomes.get(scope), self._known.get(scope)
        if outcome is not None:
            stamp = outcome.stamp
            return outcome if stamp is not None and (stamp.entity, stamp.id) == (name, write.id) else None
        key = self.head(write.entity, write.tenant, write.id).key
        if known is None or known.version in (NOTHING, SPENT) or (known.entity, known.key) != (name, key):
            return None
        return self._answered(known, write.tenant)

    def _first_outcome(self, identity: SqliteIdentity, tenant: str) -> Outcome | None:
        scope = identity.scope
        staged = self._requests.get(scope)
        if staged is not None:
            require_same_command(staged.digest, identity.digest)
            return self._outcomes[scope]
        known = self._known.get(scope)
        if known is None:
            return None
        require_same_command(known.digest, identity.digest)
        if known.version == NOTHING:
            return Outcome(None, None, None, duplicate=True)
        if known.version == SPENT:
            name = known.entity
            raise NotFound(f"the {name} that this request wrote was erased since", entity=name, erased=True)
        return self._answered(known, tenant)

    def _answered(self, known: Known, tenant: str) -> Outcome:
        name, key, version = known.entity, known.key, known.version
        table = self._tables[name]
        row = self._connection.execute(f"SELECT id FROM {name}_heads WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise Internal(f"a request names a {name} that is not there")
        id = str(row[0])
        stamp = known.stamp_of(tenant, id)
        if stamp is not None:
            return Outcome(stamp, None, None, duplicate=True)
        found = read_record(self._connection, table, key, version)
        if found is None:
            raise Internal(f"a request names version {version} of a {name} that is not there")
        record = found.read(table.entity, tenant, id)
        return Outcome(record.stamp, record.value, None, duplicate=True)

    def apply(self) -> list[tuple[HeadKey, CachedHead]]:
        """Write what was staged; answers the heads to cache once the transaction is committed."""
        write_heads(self._connection, self._tables, self._cache, self._written.values())
        for name, records in self._records.items():
            write_records(self._connection, self._tables[name], records)
        write_requests(self._connection, self._requests)
        return [(key, head) for key, head in self._heads.items() if head.key is not None]


class _View:
    """The heads as one decision sees them."""

    def __init__(self, batch: SqliteBatch, tenant: str) -> None:
        self._batch = batch
        self._tenant = tenant

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        head = self._batch.head(entity, self._tenant, id)
        return None if head.version == 0 else Head(head.id, head.version, head.at, cast("HeadT | None", head.value))
