"""A ledger in plain dictionaries: slow, complete and obviously right. The suite compares real ledgers with it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, Index, RecordT, Scalar, Stamp
from hivemem_runtime.ledger.port import Committed, Covered, Head, Outcome, Write, appends_and_answer

Key = tuple[str, str, str]
"""Entity name, tenant, id."""

Scope = tuple[str, ...]
"""The identity of a repeated write: tenant, "request" or "once", and further parts."""


def key_of(stamp: Stamp) -> Key:
    return stamp.entity, stamp.tenant, stamp.id


@dataclass(frozen=True, slots=True)
class ModelRecord:
    stamp: Stamp
    value: Any
    head: Any
    position: int | None
    tags: Mapping[str, str | None]


@dataclass(slots=True)
class ModelKey:
    entity: AnyEntity
    version: int = 0
    at: int = 0
    head: Any = None
    records: dict[int, ModelRecord] = field(default_factory=dict[int, ModelRecord])
    shares: bool = False
    """True while records from before an erasure are still readable."""

    @property
    def erased(self) -> bool:
        return self.version > 0 and self.head is None


class ModelHeads:
    """The heads as a decision sees them."""

    def __init__(self, model: "Model", tenant: str) -> None:
        self._model = model
        self._tenant = tenant

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        return cast("Head[HeadT] | None", self._model.head((entity.name, self._tenant, id)))


class Model:
    def __init__(self, entities: Sequence[AnyEntity]) -> None:
        self.entities = {entity.name: entity for entity in entities}
        self.keys: dict[Key, ModelKey] = {}
        self._repeats: dict[Scope, tuple[Stamp | None, Any]] = {}
        self._spent: set[Scope] = set()

    def head(self, key: Key) -> Head[Any] | None:
        found = self.keys.get(key)
        return Head(key[2], found.version, found.at, found.head) if found else None

    def heads(self, tenant: str) -> ModelHeads:
        return ModelHeads(self, tenant)

    def repeated(self, write: Write) -> tuple[Stamp | None, Any] | None:
        """Return the first outcome of this write if it is a repetition and was not erased."""
        known = self._known(write)
        return None if known is None else self._repeats.get(known)

    def is_spent(self, write: Write) -> bool:
        """Return whether the records of this request were erased."""
        return self._known(write) in self._spent

    def _known(self, write: Write) -> Scope | None:
        return next((scope for scope in _scopes(write) if scope in self._repeats or scope in self._spent), None)

    def apply(self, write: Write, committed: Sequence[Committed]) -> None:
        """Apply the outcome of a write if it equals the outcome in the model."""
        assert self.repeated(write) is None, f"applied twice: {write.cause}"
        assert not self.is_spent(write), f"applied though it was erased: {write.cause}"
        decision, _ = appends_and_answer(write.decide(self.heads(write.tenant), committed[0].stamp.at))
        assert len(decision) == len(committed)
        nth: Counter[Key] = Counter()
        for append, each in zip(decision, committed, strict=True):
            stamp = each.stamp
            found = self.keys.setdefault(key_of(stamp), ModelKey(append.entity))
            assert stamp.at == committed[0].stamp.at + nth[key_of(stamp)]
            nth[key_of(stamp)] += 1
            assert (stamp.tenant, stamp.entity, stamp.id) == (write.tenant, append.entity.name, append.id)
            assert (stamp.actor, stamp.cause, stamp.traceparent) == (write.actor, write.cause, write.traceparent)
            assert stamp.version == found.version + 1, f"{stamp} after version {found.version}"
            assert stamp.at > found.at, f"{stamp} after {found.at}"
            assert each.record == append.record, f"{each.record} where {append.record} was decided"
            found.head = append.entity.evolve(found.head, append.record, stamp)
            assert each.head == found.head
            assert not each.erased
            self._keep(found, stamp, append.record)
        first = committed[0]
        for scope in _scopes(write):
            self._repeats[scope] = (first.stamp, first.record if first.entity.history else None)

    def _keep(self, key: ModelKey, stamp: Stamp, record: Any) -> None:
        entity = key.entity
        position = entity.position(record) if entity.position else None
        no_tags: Mapping[str, str | None] = {}
        tags = entity.tags(record) if entity.tags and position is not None else no_tags
        key.version, key.at = stamp.version, stamp.at
        key.records[stamp.version] = ModelRecord(stamp, record, key.head, position, tags)

    def did_nothing(self, write: Write) -> None:
        if write.request_id is not None:
            self._repeats[write.tenant, "request", write.request_id.name] = (None, None)

    def erase(self, stamp: Stamp, keep_through_position: int) -> None:
        key = self.keys[key_of(stamp)]
        assert stamp.version == key.version + 1
        assert stamp.at > key.at
        key.version, key.at, key.head = stamp.version, stamp.at, None
        self.share_less(key_of(stamp), keep_through_position)
        gone = [scope for scope, first in self._repeats.items() if first[0] and key_of(first[0]) == key_of(stamp)]
        for scope in gone:
            del self._repeats[scope]
        self._spent.update(scope for scope in gone if scope[1] == "request")

    def share_less(self, key: Key, keep_through_position: int) -> None:
        """Keep only these records of an erased key readable."""
        kept = self.keys[key]
        kept.records = {
            version: record
            for version, record in kept.records.items()
            if record.position is not None and record.position <= keep_through_position
        }
        kept.shares = bool(kept.records)

    def history(
        self,
        key: Key,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int,
        reverse: bool = False,
        by_position: bool = False,
        tag: tuple[str, str] | None = None,
    ) -> list[ModelRecord]:
        found: list[ModelRecord] = []
        records = self.keys[key].records if key in self.keys else {}
        for version in sorted(records, reverse=reverse):
            record = records[version]
            place = record.position if by_position else version
            if place is None or place <= after or (before is not None and place >= before):
                continue
            if tag is None or record.tags.get(tag[0]) == tag[1]:
                found.append(record)
        return found[:limit]

    def as_of(self, key: Key, at: int) -> Head[Any] | None:
        last = self.record_as_of(key, at)
        return Head(key[2], last.stamp.version, last.stamp.at, last.head) if last else None

    def find(self, entity: AnyEntity, tenant: str, index: Index, equals: Mapping[str, Scalar]) -> list[Head[Any]]:
        found: list[tuple[Any, str, Head[Any]]] = []
        for key, kept in self.keys.items():
            head = self.head(key)
            if head is None or head.value is None or key[:2] != (entity.name, tenant):
                continue
            fields = kept.entity.indexed(head.value)
            order = "" if index.order is None else fields[index.order]
            if (
                order is not None
                and all(fields[name] == equals[name] for name in index.equals)
                and (not index.only or fields[index.only])
            ):
                found.append((order, head.id, head))
        return [head for _, _, head in sorted(found, key=lambda each: each[:2])]

    def covered(self, entity: AnyEntity, tenant: str, index: Index, equals: Mapping[str, Scalar]) -> list[Covered]:
        found = self.find(entity, tenant, index, equals)
        fields = [entity.indexed(head.value) for head in found]
        return [
            Covered(head.id, {name: each[name] for name in index.covering})
            for head, each in zip(found, fields, strict=True)
        ]

    def record_as_of(self, key: Key, at: int) -> ModelRecord | None:
        records = [record for record in self.keys[key].records.values() if record.stamp.at <= at]
        return max(records, key=lambda record: record.stamp.version, default=None)


def _scopes(write: Write) -> Iterator[Scope]:
    if write.request_id is not None:
        yield write.tenant, "request", write.request_id.name
    if write.once is not None:
        yield write.tenant, "once", write.entity.name, write.id, write.once


def is_first_outcome(outcome: Outcome, first: tuple[Stamp | None, Any]) -> bool:
    return outcome.duplicate and (outcome.stamp, outcome.record) == first and outcome.head is None
