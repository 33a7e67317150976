"""One batch of writes: decisions against the newest heads, staged in memory, applied by a few statements."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final, cast

from hivemem_contracts.errors import Internal, Unavailable
from hivemem_runtime.ledger.codec import decode_head, encode
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Scalar, Stamp
from hivemem_runtime.ledger.port import Append, Committed, Head, Outcome, Write
from hivemem_runtime.ledger.sqlite.reads import RECORD_COLUMNS, read_record
from hivemem_runtime.ledger.sqlite.rows import insert, marks
from hivemem_runtime.ledger.sqlite.schema import column, tag_column
from hivemem_runtime.ledger.stored import StoredRecord, store

CACHED_HEADS: Final = 10_000
NOTHING: Final = 0
"""The version that a request names which appended nothing."""

HeadKey = tuple[str, str, str]
"""Entity name, tenant, id."""


@dataclass(slots=True)
class CachedHead:
    """A head as the writer keeps it between batches. `key` is None until its row is there, `indexed` is what stands
    in its row's index columns."""

    entity: AnyEntity
    tenant: str
    id: str
    key: int | None = None
    version: int = 0
    at: int = 0
    announced: int = 0
    value: Any = None
    indexed: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])

    def copy(self) -> "CachedHead":
        """For a batch, which may fail: what is cached stays as it is."""
        return CachedHead(
            self.entity,
            self.tenant,
            self.id,
            self.key,
            self.version,
            self.at,
            self.announced,
            self.value,
            self.indexed,
        )


class HeadCache:
    """Heads by key, bounded; the oldest entries leave first. Emptied when somebody else wrote the file."""

    def __init__(self) -> None:
        self._heads: dict[HeadKey, CachedHead] = {}
        self._data_version: int | None = None

    def refresh(self, connection: sqlite3.Connection) -> None:
        """To be called inside the write transaction: nobody else can write from here on."""
        found = cast("int", connection.execute("PRAGMA data_version").fetchone()[0])
        if found != self._data_version:
            self._heads.clear()
            self._data_version = found

    def clear(self) -> None:
        self._heads.clear()

    def get(self, key: HeadKey) -> CachedHead | None:
        return self._heads.get(key)

    def put(self, heads: Iterable[tuple[HeadKey, CachedHead]]) -> None:
        for key, head in heads:
            self._heads.pop(key, None)
            self._heads[key] = head
        while len(self._heads) > CACHED_HEADS:
            del self._heads[next(iter(self._heads))]

    def drop(self, key: HeadKey) -> None:
        self._heads.pop(key, None)


class Batch:
    """Runs writes one after the other against staged heads; `apply` writes what they staged."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        entities: Mapping[str, AnyEntity],
        cache: HeadCache,
        clock: Callable[[], int],
        announced: Mapping[HeadKey, int],
    ) -> None:
        self._connection = connection
        self._entities = entities
        self._cache = cache
        self._clock = clock
        self._marks = announced
        self._heads: dict[HeadKey, CachedHead] = {}
        self._written: dict[HeadKey, CachedHead] = {}
        self._records: dict[str, list[tuple[CachedHead, StoredRecord]]] = defaultdict(list)
        self._requests: dict[bytes, tuple[AnyEntity, str, str, int, int | None]] = {}
        self._scopes: list[list[tuple[bytes, bool]]] = []
        self._outcomes: dict[bytes, Outcome] = {}
        self._known: dict[bytes, tuple[str, int, int]] = {}
        self.committed: list[Committed] = []

    def load(self, writes: Sequence[Write]) -> None:
        """Everything that the batch is likely to need, in few statements: request ids and missing heads."""
        self._scopes = [scopes_of(write) for write in writes]
        scopes = list(dict.fromkeys(scope for found in self._scopes for scope, _ in found))
        for start in range(0, len(scopes), 500):
            part = scopes[start : start + 500]
            statement = f"SELECT scope, entity, key, version FROM requests WHERE scope IN ({marks(len(part))})"
            for scope, entity, key, version in self._connection.execute(statement, part):
                self._known[scope] = (entity, key, version)
        missing: dict[tuple[str, str], dict[str, AnyEntity]] = defaultdict(dict)
        for write in writes:
            if self._cache.get((write.entity.name, write.tenant, write.id)) is None:
                missing[write.entity.name, write.tenant][write.id] = write.entity
        for (_, tenant), wanted in missing.items():
            self._read_heads(next(iter(wanted.values())), tenant, list(wanted))

    def run(self, place: int, write: Write) -> Outcome:
        """The outcome of the write at a place of those that were loaded, staged; raises what its decision raises and
        stages nothing then."""
        scopes = self._scopes[place]
        for scope, _ in scopes:
            known = self._repeated(scope, write.tenant)
            if known is not None:
                return known
        now = self._clock()
        decision = write.decide(_View(self, write.tenant), now)
        if not decision:
            return self._nothing(write, scopes, now)
        if len(decision) > 1 and len({(append.entity.name, append.id) for append in decision}) != len(decision):
            raise AssertionError("a decision appends at most one record a key")
        # One time for all that is committed together, above that of each of the keys.
        at = max([now, *[self.head(append.entity, write.tenant, append.id).at + 1 for append in decision]])
        # Evolving and encoding may raise, so all of it is done before anything is staged.
        for committed, head, record in [self._next(write, append, at) for append in decision]:
            self._stage(committed, head, record)
        first = self.committed[-len(decision)]
        outcome = Outcome(first.stamp, first.record, first.head)
        for scope, kept in scopes:
            purge_from = None if kept else first.stamp.at
            self._requests[scope] = (first.entity, write.tenant, first.stamp.id, first.stamp.version, purge_from)
            self._outcomes[scope] = outcome
        return outcome

    def _stage(self, committed: Committed, head: CachedHead, record: StoredRecord) -> None:
        stamp = committed.stamp
        key = (stamp.entity, stamp.tenant, stamp.id)
        if key not in self._written:
            if self._heads.get(key) is not head:
                head = self._heads[key] = head.copy()
            self._written[key] = head
        head.version = stamp.version
        head.at = stamp.at
        head.announced = committed.announced
        head.value = committed.head
        self._records[stamp.entity].append((head, record))
        self.committed.append(committed)

    def _nothing(self, write: Write, scopes: Sequence[tuple[bytes, bool]], now: int) -> Outcome:
        """A request that found nothing to do stays done: delivered again, it must not hit what came meanwhile."""
        outcome = Outcome(None, None, None)
        for scope, kept in scopes:
            if not kept:
                self._requests[scope] = (write.entity, write.tenant, write.id, NOTHING, now)
                self._outcomes[scope] = outcome
        return outcome

    def _next(self, write: Write, append: Append[Any, Any], at: int) -> tuple[Committed, CachedHead, StoredRecord]:
        entity = append.entity
        head = self.head(entity, write.tenant, append.id)
        announced = self._marks.get((entity.name, write.tenant, append.id), 0)
        if announced < head.announced:
            announced = head.announced
        if head.value is None and announced < head.version:
            raise Unavailable(
                f"the erasure of this {entity.name} is not announced yet", retry_after_ms=50, announced=announced
            )
        stamp = Stamp(
            write.tenant, entity.name, append.id, head.version + 1, at, write.actor, write.cause, write.traceparent
        )
        value = entity.evolve(head.value, append.record, stamp)
        committed = Committed(entity, stamp, append.record, value, announced)
        return committed, head, store(entity, stamp, append.record, value)

    def head(self, entity: AnyEntity, tenant: str, id: str) -> CachedHead:
        """Staged, cached or read; to be changed by `_stage` alone."""
        key = (entity.name, tenant, id)
        head = self._heads.get(key) or self._cache.get(key)
        if head is None:
            self._read_heads(entity, tenant, [id])
            head = self._heads[key]
        return head

    def _read_heads(self, entity: AnyEntity, tenant: str, ids: list[str]) -> None:
        for id in ids:
            self._heads[entity.name, tenant, id] = CachedHead(entity, tenant, id)
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            rows = self._connection.execute(
                "SELECT key, id, version, at, announced, schema, body "
                f"FROM {entity.name}_heads WHERE tenant = ? AND id IN ({marks(len(part))})",
                (tenant, *part),
            )
            for key, id, version, at, announced, schema, body in rows.fetchall():
                value = None if body is None else decode_head(entity, schema, body)
                indexed: Mapping[str, Scalar] = {} if value is None else entity.indexed(value)
                self._heads[entity.name, tenant, id] = CachedHead(
                    entity, tenant, id, key, version, at, announced, value, indexed
                )

    def _repeated(self, scope: bytes, tenant: str) -> Outcome | None:
        outcome = self._outcomes.get(scope)
        if outcome is not None:
            return Outcome(outcome.stamp, outcome.record, None, duplicate=True)
        known = self._known.get(scope)
        if known is None:
            return None
        name, key, version = known
        if version == NOTHING:
            return Outcome(None, None, None, duplicate=True)
        entity = self._entities[name]
        found = read_record(self._connection, entity, key, version)
        row = self._connection.execute(f"SELECT id FROM {name}_heads WHERE key = ?", (key,)).fetchone()
        if found is None or row is None:
            raise Internal(f"a request names version {version} of a {name} that is not there")
        record = found.read(entity, tenant, str(row[0]))
        return Outcome(record.stamp, record.value, None, duplicate=True)

    def apply(self) -> list[tuple[HeadKey, CachedHead]]:
        """Write what was staged; answers the heads to cache once the transaction is committed."""
        self._write_heads()
        for records in self._records.values():
            self._write_records(records)
        rows = [
            (scope, entity.name, self._heads[entity.name, tenant, id].key if version else 0, version, at)
            for scope, (entity, tenant, id, version, at) in self._requests.items()
        ]
        # In the order of the key: neighbours share pages, and the cursor need not search anew for each row.
        rows.sort()
        insert(self._connection, "INSERT INTO requests (scope, entity, key, version, at)", rows)
        return [(key, head) for key, head in self._heads.items() if head.key is not None]

    def _write_heads(self) -> None:
        groups: dict[tuple[str, tuple[str, ...]], list[CachedHead]] = defaultdict(list)
        for head in self._written.values():
            before, head.indexed = head.indexed, head.entity.indexed(head.value)
            if head.key is None:
                head.key = self._insert_head(head)
                continue
            after = head.indexed
            changed = tuple(name for name in head.entity.index_fields if after.get(name) != before.get(name))
            groups[head.entity.name, changed].append(head)
        for (_, changed), heads in groups.items():
            self._update_heads(heads, changed)

    def _insert_head(self, head: CachedHead) -> int:
        fields = head.entity.index_fields
        columns = ["tenant", "id", "version", "at", "announced", "schema", "body", *map(column, fields)]
        values = [head.tenant, head.id, head.version, head.at, head.announced, head.entity.schema, encode(head.value)]
        statement = f"INSERT INTO {head.entity.name}_heads ({', '.join(columns)}) VALUES ({marks(len(columns))})"
        cursor = self._connection.execute(statement, [*values, *(head.indexed.get(name) for name in fields)])
        return cast("int", cursor.lastrowid)

    def _update_heads(self, heads: Sequence[CachedHead], fields: Sequence[str]) -> None:
        """An upsert that always finds its row. Only index fields that changed are set: SQLite rewrites an index for
        every column that a statement names, whether its value is new or not."""
        entity = heads[0].entity
        columns = ["version", "at", "announced", "schema", "body", *map(column, fields)]
        rows = [
            (
                head.key,
                head.tenant,
                head.id,
                head.version,
                head.at,
                head.announced,
                entity.schema,
                encode(head.value),
                *(head.indexed.get(name) for name in fields),
            )
            for head in heads
        ]
        insert(
            self._connection,
            f"INSERT INTO {entity.name}_heads (key, tenant, id, {', '.join(columns)})",
            rows,
            f"ON CONFLICT (key) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in columns)}",
        )

    def _write_records(self, records: Sequence[tuple[CachedHead, StoredRecord]]) -> None:
        entity = records[0][0].entity
        columns = ["key", *RECORD_COLUMNS, *map(tag_column, entity.tag_fields)]
        rows = [
            (
                head.key,
                record.version,
                record.at,
                record.actor,
                record.cause,
                record.traceparent,
                record.schema,
                record.body,
                record.snapshot,
                record.position,
                *(record.tags.get(tag) for tag in entity.tag_fields),
            )
            for head, record in records
        ]
        rows.sort(key=itemgetter(0, 1))
        insert(self._connection, f"INSERT INTO {entity.name}_records ({', '.join(columns)})", rows)


class _View:
    """The heads as one decision sees them."""

    def __init__(self, batch: Batch, tenant: str) -> None:
        self._batch = batch
        self._tenant = tenant

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        head = self._batch.head(entity, self._tenant, id)
        return None if head.version == 0 else Head(head.id, head.version, head.at, cast("HeadT | None", head.value))


def scopes_of(write: Write) -> list[tuple[bytes, bool]]:
    """Short names for the scopes of a write's identities, and whether each is kept as long as its key.

    With the lengths of the parts in front, no text in one part can pass for another part."""
    scopes: list[tuple[bytes, bool]] = []
    if write.request_id is not None:
        scopes.append((_name(f"r{len(write.tenant)}:{write.tenant}{write.request_id}"), False))
    if write.once is not None:
        place = f"{len(write.tenant)},{len(write.id)}:{write.tenant}{write.id}"
        scopes.append((_name(f"o{write.entity.name}:{place}{write.once}"), True))
    return scopes


def _name(scope: str) -> bytes:
    """Sixteen bytes that nobody can make two scopes share."""
    return blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=16).digest()
