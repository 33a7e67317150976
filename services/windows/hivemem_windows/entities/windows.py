"""Windows: what was done to each. The records are the changes on the feed, and the answers to repeated requests."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Entity, Stamp
from hivemem_runtime.ledger.places import namespace_and_key, place_of


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """One change of a window: its name and its value on the feed."""

    operation: str
    value: dict[str, Any] | None = None


def _newest(head: WindowRecord | None, record: WindowRecord, stamp: Stamp) -> WindowRecord:
    return record


def announce_window(record: WindowRecord, stamp: Stamp) -> tuple[Announcement, ...]:
    resource, key = namespace_and_key(stamp.id)
    address = Address((resource,), key)
    previous = stamp.version - 1 or None
    return (Announcement("window", record.operation, address, resource, stamp.version, previous, record.value, key),)


def _announce_erased(stamp: Stamp) -> tuple[Announcement, ...]:
    return announce_window(WindowRecord("erased"), stamp)


WINDOW: Final = Entity(
    name="window",
    head=WindowRecord,
    record=WindowRecord,
    evolve=_newest,
    announce=announce_window,
    indexed=lambda head: {},
    announce_erased=_announce_erased,
    snapshot_every=1,
    told_as={"window": place_of},
)
