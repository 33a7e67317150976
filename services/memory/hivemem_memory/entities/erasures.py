"""Erasures: the request, the progress and the confirmations. The id of an erasure is its receipt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Index, Scalar, Stamp, record_entity

RUNNING: Final = "running"
REMOVED: Final = "removed"
"""The memories are gone, and other workers still have to confirm."""
DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure. Head and record have the same shape. `confirmed` holds one `{worker, removed, at}` for each worker.

    `more` lists further namespaces. All places through `reached` are counted, and erased or being erased: a worker that
    resumes erases the rest of them and counts from there on. `awaited` are the workers that have to confirm. `told`
    counts the announcements, and `announced` is what this record announces.
    """

    namespace: str
    key: str | None
    requested_by: str
    requested_at: int
    cause: str
    status: str = RUNNING
    entries: int = 0
    versions: int = 0
    finished_at: int | None = None
    confirmed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    more: list[str] = field(default_factory=list[str])
    reached: str | None = None
    awaited: list[str] = field(default_factory=list[str])
    told: int = 0
    announced: str | None = None


def awaited_of(erasure: Erasure) -> list[str]:
    """Return the workers that have not confirmed yet."""
    confirmed = {each["worker"] for each in erasure.confirmed}
    return [worker for worker in erasure.awaited if worker not in confirmed]


def receipt_fields(receipt: str, erasure: Erasure) -> dict[str, Any]:
    """Return the wire format of a receipt, for the feed and for answers."""
    return {
        "receipt": receipt,
        "namespace": erasure.namespace,
        "key": erasure.key,
        "status": DONE if erasure.status == DONE else RUNNING,
        "entries": erasure.entries,
        "versions": erasure.versions,
        "requested_by": erasure.requested_by,
        "requested_at": format_microseconds(erasure.requested_at),
        "finished_at": None if erasure.finished_at is None else format_microseconds(erasure.finished_at),
        "confirmed": [{**each, "at": format_microseconds(each["at"])} for each in erasure.confirmed],
        "awaited": awaited_of(erasure),
    }


def _announce(record: Erasure, stamp: Stamp) -> tuple[Announcement, ...]:
    if record.announced is None:
        return ()
    value = receipt_fields(stamp.id, record)
    previous = record.told - 1 or None
    return (Announcement("erasure", record.announced, Address((stamp.id,)), stamp.id, record.told, previous, value),)


def _index(head: Erasure) -> Mapping[str, Scalar]:
    return {"running": head.status != DONE, "requested_at": head.requested_at}


ERASURE: Final = record_entity(
    "erasure",
    Erasure,
    announce=_announce,
    indexed=_index,
    indexes=(Index("running", (), "requested_at", only="running"),),
)
