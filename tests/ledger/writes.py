"""Writes that the tests commit. Each is a pure decision on the entities of the suite."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hivemem_contracts.errors import NotFound, RevisionConflict
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT
from hivemem_runtime.ledger.port import Append, Decide, Decision, Heads, RequestId, Write

from .entities import COUNTER, GAUGE, NOTE, CounterSet, Gauge, NoteEdited

TENANT = "acme"


@dataclass(frozen=True, slots=True)
class Told:
    """The identity of a write, apart from its decision."""

    tenant: str = TENANT
    actor: str = "ada"
    request_id: str | None = None
    digest: bytes | None = None
    once: str | None = None
    cause: str | None = None
    traceparent: str | None = None
    as_long_as_key: bool = False
    answered_by: str | None = None
    part_of: RequestId | None = None


def write(
    entity: Entity[HeadT, RecordT],
    id: str,
    decide: Decide,
    told: Told | None = None,
    reads: Sequence[tuple[AnyEntity, str]] = (),
) -> Write:
    told = told or Told()
    return Write(
        reads=reads,
        tenant=told.tenant,
        actor=told.actor,
        entity=entity,
        id=id,
        decide=decide,
        request_id=None if told.request_id is None else RequestId(told.request_id, told.digest, told.as_long_as_key),
        once=told.once,
        cause=told.cause,
        traceparent=told.traceparent,
        answered_by=told.answered_by,
        part_of=told.part_of,
    )


def check_version(heads: Heads, entity: Entity[HeadT, RecordT], id: str, expected: int | None) -> None:
    head = heads(entity, id)
    actual = 0 if head is None or head.value is None else head.version
    if expected is not None and expected != actual:
        raise RevisionConflict(f"{id}: expected {expected}, is {actual}", expected=expected, actual=actual)


def edit(
    id: str,
    text: str | None = None,
    /,
    *,
    line: bool = False,
    at_version: bool = False,
    expect: int | None = None,
    told: Told | None = None,
    **fields: Any,
) -> Write:
    """Edit a note. With `line` the record gets the note's next position, with `at_version` its version."""

    def decide(heads: Heads, now: int) -> Decision:
        check_version(heads, NOTE, id, expect)
        head = heads(NOTE, id)
        record = NoteEdited(text=text, **fields)
        if line:
            last = head.value.position if head and head.value else 0
            record = replace(record, position=last + 1)
        elif at_version:
            record = replace(record, position=head.version + 1 if head else 1)
        return [Append(NOTE, id, record)]

    return write(NOTE, id, decide, told)


def count(id: str, by: int = 1, *, name: str = "", expect: int | None = None, told: Told | None = None) -> Write:
    """Read the counter and write the sum: an update is lost if a decision ever sees an old head."""

    def decide(heads: Heads, now: int) -> Decision:
        check_version(heads, COUNTER, id, expect)
        return [Append(COUNTER, id, CounterSet(value_of(heads, id) + by, name))]

    return write(COUNTER, id, decide, told)


def value_of(heads: Heads, id: str) -> int:
    head = heads(COUNTER, id)
    return head.value.value if head and head.value else 0


def gauge(
    id: str,
    by: int = 1,
    *,
    board: str | None = None,
    body: Any = None,
    expect: int | None = None,
    told: Told | None = None,
) -> Write:
    """Work like `count`, on an entity without history."""

    def decide(heads: Heads, now: int) -> Decision:
        check_version(heads, GAUGE, id, expect)
        return [Append(GAUGE, id, Gauge(shown_by(heads, id) + by, board, body))]

    return write(GAUGE, id, decide, told)


def shown_by(heads: Heads, id: str) -> int:
    head = heads(GAUGE, id)
    return head.value.value if head and head.value else 0


def count_and_gauge(id: str, *, gauge_first: bool, told: Told | None = None) -> Write:
    """Raise a counter and a gauge of the same id in one step. The write belongs to the first, which answers its
    repetition."""

    def decide(heads: Heads, now: int) -> Decision:
        appends: list[Append[Any, Any]] = [
            Append(COUNTER, id, CounterSet(value_of(heads, id) + 1)),
            Append(GAUGE, id, Gauge(shown_by(heads, id) + 1)),
        ]
        return appends[::-1] if gauge_first else appends

    return write(GAUGE, id, decide, told) if gauge_first else write(COUNTER, id, decide, told)


def transfer(source: str, target: str, amount: int, *, told: Told | None = None) -> Write:
    """Take from one counter and give to another, or refuse."""

    def decide(heads: Heads, now: int) -> Decision:
        held = value_of(heads, source)
        if held < amount:
            raise NotFound(f"{source} has {held}", held=held)
        return [
            Append(COUNTER, source, CounterSet(held - amount)),
            Append(COUNTER, target, CounterSet(value_of(heads, target) + amount)),
        ]

    return write(COUNTER, source, decide, told)


def note_and_count(note: str, counter: str, text: str, *, told: Told | None = None) -> Write:
    """Add a line to a note and count it: two entities in one step."""

    def decide(heads: Heads, now: int) -> Decision:
        head = heads(NOTE, note)
        return [
            Append(NOTE, note, NoteEdited(text=text, add=1, position=head.version + 1 if head else 1, author="both")),
            Append(COUNTER, counter, CounterSet(value_of(heads, counter) + 1)),
        ]

    return write(NOTE, note, decide, told)


def series(note: str, counter: str, steps: int, *, told: Told | None = None) -> Write:
    """Add many lines to a note and count each: several records of two keys, alternating."""

    def decide(heads: Heads, now: int) -> Decision:
        head = heads(NOTE, note)
        version, value = head.version if head else 0, value_of(heads, counter)
        appends: list[Append[Any, Any]] = []
        for step in range(1, steps + 1):
            appends.append(Append(NOTE, note, NoteEdited(f"step {step}", add=step, position=version + step)))
            appends.append(Append(COUNTER, counter, CounterSet(value + step)))
        return appends

    return write(NOTE, note, decide, told)


def nothing(id: str, *, told: Told | None = None) -> Write:
    """A decision that finds nothing to do."""
    return write(COUNTER, id, lambda _heads, _now: [], told)
