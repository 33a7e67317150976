"""Erasures: the request, the progress and the confirmations. The id of an erasure is its receipt."""

from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure. Head and record have the same shape. `confirmed` holds one `{worker, removed, at}` for each worker.

    `more` lists further namespaces. All places through `reached` are counted, and erased or being erased: a worker that
    resumes erases the rest of them and counts from there on.
    """

    namespace: str
    key: str | None
    requested_by: str
    requested_at: int
    cause: str
    status: str = "running"
    entries: int = 0
    versions: int = 0
    finished_at: int | None = None
    confirmed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    more: list[str] = field(default_factory=list[str])
    reached: str | None = None


ERASURE: Final = record_entity(
    "erasure",
    Erasure,
    indexed=lambda head: {"running": head.status == "running", "requested_at": head.requested_at},
    indexes=(Index("running", (), "requested_at", only="running"),),
)
