"""Resources: the declarations that windows follow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.entity import Announcement, Index, Scalar, Stamp, record_entity


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """A version of a resource, in the wire format; None once it is deleted. `at` is microseconds since 1970."""

    declared: dict[str, Any] | None
    by: str
    at: int


def announce_resource(record: ResourceRecord, stamp: Stamp) -> tuple[Announcement, ...]:
    operation = "deleted" if record.declared is None else "declared"
    value = None if record.declared is None else {"resource": record.declared}
    previous = stamp.version - 1 or None
    return (Announcement("resource", operation, Address((stamp.id,)), stamp.id, stamp.version, previous, value),)


def _index_resource(record: ResourceRecord) -> Mapping[str, Scalar]:
    return {"declared": record.declared is not None}


RESOURCE: Final = record_entity(
    "resource",
    ResourceRecord,
    announce=announce_resource,
    indexed=_index_resource,
    indexes=(Index("declared", (), None, only="declared"),),
    told_as={"resource": lambda namespace, key: namespace},
)
