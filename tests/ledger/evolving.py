"""One entity in three releases: later releases read, reindex and continue the data of the first one."""

from dataclasses import dataclass, replace
from typing import Any

from hivemem_runtime.ledger.entity import Announcement, Entity, Index, Stamp


def _quiet(record: object, stamp: Stamp) -> tuple[Announcement, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class FirstTaskHead:
    title: str
    done: bool


@dataclass(frozen=True, slots=True)
class FirstTaskRecord:
    title: str
    done: bool = False


def _evolve_first(head: FirstTaskHead | None, record: FirstTaskRecord, stamp: Stamp) -> FirstTaskHead:
    return FirstTaskHead(record.title, record.done)


FIRST: Entity[FirstTaskHead, FirstTaskRecord] = Entity(
    name="task",
    head=FirstTaskHead,
    record=FirstTaskRecord,
    evolve=_evolve_first,
    announce=_quiet,
    indexed=lambda head: {"done": head.done, "title": head.title},
    indexes=(Index("by_done", ("done",), "title"),),
    snapshot_every=2,
)


@dataclass(frozen=True, slots=True)
class TaskHead:
    title: str
    state: str
    weight: int


@dataclass(frozen=True, slots=True)
class TaskRecord:
    title: str
    state: str
    weight: int = 0


def _evolve(head: TaskHead | None, record: TaskRecord, stamp: Stamp) -> TaskHead:
    return TaskHead(record.title, record.state, record.weight)


def _to_second(kind: str, schema: int, body: dict[str, Any]) -> dict[str, Any]:
    assert kind in ("head", "record"), kind
    assert schema == 1, schema
    return {"title": body["title"], "state": "done" if body["done"] else "open", "weight": len(body["title"])}


SECOND: Entity[TaskHead, TaskRecord] = Entity(
    name="task",
    head=TaskHead,
    record=TaskRecord,
    evolve=_evolve,
    announce=_quiet,
    indexed=lambda head: {"state": head.state, "title": head.title, "weight": head.weight},
    indexes=(Index("by_state", ("state",), "weight"),),
    snapshot_every=2,
    schema=2,
    upcast=_to_second,
)


def _to_third(kind: str, schema: int, body: dict[str, Any]) -> dict[str, Any]:
    newer = _to_second(kind, schema, body) if schema == 1 else body
    return {**newer, "title": newer["title"].upper()}


THIRD: Entity[TaskHead, TaskRecord] = replace(SECOND, schema=3, upcast=_to_third)

SECOND_INDEXED_OTHERWISE: Entity[TaskHead, TaskRecord] = replace(
    SECOND,
    indexes=(
        Index("by_state", ("state",), "title"),
        Index("by_title", ("title",), "weight"),
        Index("ids", (), None, covering=("weight", "state")),
    ),
)
"""The data of SECOND with other indexes: one has another order under its old name, and two are new."""
